"""The log on the disk: entries, checksums, and files of earlier versions."""
