"""Answers compared with MySQL's own: audits, samples, and what explains a difference."""
