"""What a cluster must keep and tell while its processes, disks and links fail."""
