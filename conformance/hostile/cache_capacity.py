"""Whoever reaches the admin API asks for caches that no machine has room for."""
import json
import urllib.error
import urllib.request

from .watch import MIB

GROWTH_BYTES_MAX = 30 * MIB
ANSWERS_MIN = 0


def put(node, mebibytes):
    """The status and the body of the answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{node.admin_port}/api/v1/caches/capacity", method="PUT",
                                     data=json.dumps({"rows_mebibytes": mebibytes}).encode(),
                                     headers={"Content-Type": "application/json", "X-Ilion-Admin": "1"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def prepare(_):
    return None


def attack(node, _):
    for mebibytes in (1 << 24, 1 << 43, (1 << 63) - 1, (1 << 64) - 1):
        status, body = put(node, mebibytes)
        assert status == 400 and "memory" in body, (status, body)
    try:
        said = node.nodetool("setcachecapacity", 0, 1 << 43, 0)
    except RuntimeError as error:
        said = str(error)
    assert "memory that this process may use" in said, said
    assert put(node, 8)[0] == 204 and put(node, 0)[0] == 204
    assert node.process.poll() is None
