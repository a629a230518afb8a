"""What is measured: rates of devices, and schedules beside each other; what was found is kept."""
