"""What is measured, and what is said about plans: rates of devices, times of launches, explanations."""
