"""What follows from sizes and bounds: affine forms, intervals, inequalities, and the parts that a size is cut into."""
