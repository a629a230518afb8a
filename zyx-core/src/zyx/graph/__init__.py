"""The lazy graph: what tensors compute, before anything is computed."""

from zyx.graph.graph import Graph
from zyx.graph.node import Node

__all__ = ["Graph", "Node"]
