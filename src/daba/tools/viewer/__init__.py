"""`daba view`: a reconstruction in the browser, by viser (`pip install 'daba[viewer]'`).

subject.py      what is shown: estimates, devices, errors, colours
placing.py      from the world to the picture's own frame: centred, up is up, ten units wide
paint.py        numbers to colours
histogram.py    how errors are spread
thumbnails.py   the images themselves, small
scene.py        the points, cameras and lines of a page
panel.py        its controls
markup.py       its words, in which everything is text
origins.py      who may talk to the server
serve.py        the server, and how to reach it
"""
