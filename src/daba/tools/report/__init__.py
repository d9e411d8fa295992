"""`daba report`: one HTML page that tells how solves went, and needs nothing but itself.

    page.py        the page, its style and its parts     tables.py      a table as data
    runs.py        histories, read and checked           run_tables.py  the tables of runs
    drawing.py     matplotlib to small SVG               figures.py     the panels
    overview.py    what a history holds for it           lenses.py      intrinsics before and after
    run_report.py  what stands where

`daba bench` makes its report of the first column and `drawing.py`, too.
"""
