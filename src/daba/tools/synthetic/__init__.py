"""Synthetic scenes of any size with known truth: `generate(SceneOptions(...))`.

A scene (street, city, orbit) says where cameras stand and what surfaces look like;
`visibility` decides who sees what, `tracks` picks the observations, `simulate` makes the images
and the perturbed start.
"""

from daba.tools.synthetic.options import SceneOptions
from daba.tools.synthetic.simulate import Scene, generate

__all__ = ["Scene", "SceneOptions", "generate"]
