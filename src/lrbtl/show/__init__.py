"""In: boards, estimates and fits.

Out: tables in files, pictures, one self-contained HTML report.
Open first: `plots` or `report`.
"""
