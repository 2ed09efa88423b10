"""The record of what happened: state-change lines, their export, and the analyses of logs."""
