"""The check that an IP address belongs to the public internet.

An address with an embedded one (IPv4-mapped, NAT64, ISATAP) is judged by the embedded address. If
the user's network translates the address (6to4, Teredo, local NAT64), it is not public. The tables
are complete here, since `ipaddress` calls some of these ranges global, depending on the version of
Python.
"""

from __future__ import annotations

import ipaddress
from typing import Final

_NOT_PUBLIC_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network; the machine itself on Linux
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; metadata of some clouds
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host, reachable from every virtual machine
            "169.254.0.0/16",  # link-local; metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments; metadata of Oracle's cloud
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})


def is_public(address: str) -> bool:
    """Return True if an address from `getaddrinfo` belongs to the public internet."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _NOT_PUBLIC_4)
    embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip.ipv4_mapped is not None or ip in _NAT64:
        return is_public(str(embedded))
    if ip not in _GLOBAL_UNICAST or any(ip in network for network in _NOT_PUBLIC_6):
        return False
    return (int(ip) >> 32) & 0xFFFFFFFF not in _ISATAP or is_public(str(embedded))
