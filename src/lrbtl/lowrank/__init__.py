"""In: score tensors and directions in which they can move.

Out: Tucker points, their tangent spaces, and the arrowhead matrices that normal equations have there.
Open first: `tucker`, then `tangent`.
"""
