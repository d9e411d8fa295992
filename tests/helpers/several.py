"""Several daba commands in one MPI job, since starting one takes longer than a small solve.

mpiexec -n 4 python several.py '[["solve", "a.npz", "--devices", "8"], ...]'
"""

import json
import sys

from daba.tools.cli import main

for command in json.loads(sys.argv[1]):
    code = main(command)
    if code != 0:
        sys.exit(code)
