"""Findings, the audit document and exit codes. Imports no other room."""
