"""The tensor and its functions, one file a family; `zyx` has them all."""
