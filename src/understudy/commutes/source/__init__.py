"""Confidential commuting tables and public files of places, read on this machine or on Spark."""
