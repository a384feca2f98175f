"""Learners prepared for single rows, which the core then takes from their values to their scores in one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from bomkl._core import OneRow
from bomkl.auto.component import NewtonComponent
from bomkl.auto.constants import LARGEST, SHARE
from bomkl.auto.curved import CurvedComponent
from bomkl.auto.features import KernelFeatures, LinearFeatures
from bomkl.auto.geometry import CLIP, FAR, VIEWS, view_width
from bomkl.auto.newton import NewtonRegression
from bomkl.auto.trees import is_tree


def one_row_of(learner: Any) -> OneRow | None:
    """Prepare a learner; None where it has parts that the core does not know."""
    if learner.geometry is None:
        return None
    views = []
    for component in learner.components:
        if is_tree(component):
            views.append(-1)
            continue
        if type(component) not in (NewtonComponent, CurvedComponent) or not isinstance(
            component.regression, NewtonRegression
        ):
            return None
        if type(component.features) is KernelFeatures and component.features.geometry in VIEWS:
            views.append(VIEWS.index(component.features.geometry))
        elif type(component.features) is LinearFeatures:
            views.append(-1)
        else:
            return None
    geometry = learner.geometry
    standard, normal = (geometry.relevance[name].astype(np.float32) for name in ("standard", "normal"))
    leading = view_width("leading", len(geometry.mean))
    return OneRow(
        learner,
        standard,
        normal,
        views,
        clip=CLIP,
        far=FAR,
        largest=LARGEST,
        leading=leading,
        share=SHARE,
        outputs=learner.outputs,
        task=int(learner.task),
        forget=learner.settings.forget,
        error_rows=learner.error_rows,
        places=np.array(learner.places(), dtype=np.int64),
    )
