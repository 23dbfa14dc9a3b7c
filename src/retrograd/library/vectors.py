"""Vectors of three components and quaternions that rotate them.

a·b,  a × b,  |a|,  q v q̄
"""

from __future__ import annotations

import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Vector3:
    """(x, y, z), in fixed-point numbers."""

    x: fixed
    y: fixed
    z: fixed

    @reversible
    def add(self, a: Vector3) -> None:
        """v += a. Inverse: v −= a."""
        self.x += a.x
        self.y += a.y
        self.z += a.z

    @reversible
    def add_scaled(self, a: Vector3, factor: fixed) -> None:
        """v += factor·a. Inverse: v −= factor·a."""
        self.x += factor * a.x
        self.y += factor * a.y
        self.z += factor * a.z

    @reversible
    def add_cross(self, a: Vector3, b: Vector3) -> None:
        """v += a × b. Inverse: v −= a × b. Trap: v is neither a nor b."""
        self.x += a.y * b.z - a.z * b.y
        self.y += a.z * b.x - a.x * b.z
        self.z += a.x * b.y - a.y * b.x


@rg.struct
class Quaternion:
    """xi + yj + zk + w: the vector part first, the scalar last."""

    x: fixed
    y: fixed
    z: fixed
    w: fixed

    @reversible
    def add_product(self, p: Quaternion, q: Quaternion) -> None:
        """s += p·q (Hamilton's product, which does not commute). Inverse: s −= p·q."""
        self.x += p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y
        self.y += p.w * q.y + p.y * q.w + p.z * q.x - p.x * q.z
        self.z += p.w * q.z + p.z * q.w + p.x * q.y - p.y * q.x
        self.w += p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z


@reversible
def scalar_product(out: fixed, a: Vector3, b: Vector3) -> None:
    """out += a·b. Inverse: out −= a·b."""
    out += a.x * b.x
    out += a.y * b.y
    out += a.z * b.z


@reversible
def vector_norm(out: fixed, a: Vector3) -> None:
    """out += |a|. Inverse: out −= |a|. Traps where |a|² overflows."""
    out += rg.sqrt(a.x * a.x + a.y * a.y + a.z * a.z)


@reversible
def rotate(out: Vector3, v: Vector3, q: Quaternion) -> None:
    """out += q v q̄ = (w² − u·u) v + 2 (u·v) u + 2w u × v, where q = (u, w). Inverse: out −= q v q̄.

    Where |q| = 1 this turns v by the angle 2 arccos w about u; else it scales v by |q|², too.
    """
    with rg.routine() as r:
        u = Vector3(q.x, q.y, q.z)
        along = fixed(0)
        scalar_product(along, u, v)
        keep = q.w * q.w - q.x * q.x - q.y * q.y - q.z * q.z
        side = Vector3(0.0, 0.0, 0.0)
        side.add_cross(u, v)
    out.add_scaled(v, keep)
    out.add_scaled(u, 2 * along)
    out.add_scaled(side, 2 * q.w)
    ~r
