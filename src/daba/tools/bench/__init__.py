"""The paper's evaluation, repeatable: `daba bench` runs what is missing and tells what was found.

cases      problems × methods × devices × losses, each with a result file of its own
runner     runs the missing ones; execute, ceres, colmap and footprint know how
results    what the files hold;  measures  what is computed from them
accuracy, counts, order, times, refinement, resources, pixels   the tables;  figures   the pictures
report     Markdown and one HTML page
"""
