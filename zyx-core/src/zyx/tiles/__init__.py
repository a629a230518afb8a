"""Programs of devices that compute on tiles of matrices: what they are, how nests become such, and what they mean."""
