"""Measurements compared with requirements, with what the hardware can do, and with published results."""
