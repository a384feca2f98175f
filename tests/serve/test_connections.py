"""Clients that speak HTTP in their own way: too much, too slowly, half, or not at all."""

import json
import socket
import time

import pytest

from bomkl.serve.http import limits

BODY = json.dumps({"row": {"a": 1.0, "b": 2.0}, "y": 1}).encode()


class Raw(socket.socket):
    """A connection on which a test says every byte itself."""

    def __init__(self, client):
        super().__init__()
        self.settimeout(60)
        self.connect(("127.0.0.1", client.port))

    def rest(self):
        """All that comes until the service closes the connection."""
        return b"".join(iter(lambda: self.recv(2**16), b""))


def head(length, *more, path="/v1/learn", host="localhost", kind="application/json", version="1.1"):
    lines = [
        f"POST {path} HTTP/{version}",
        f"Host: {host}",
        f"Content-Type: {kind}",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("more", [["Connection: close"], []])
def test_a_client_that_sends_too_much_sees_the_answer(serving, more):
    """It reads nothing before it has sent everything, far more than the buffers of a connection hold."""
    size, block = 80 * 2**20, b" " * 2**20
    with serving() as client:
        for host, status in (("localhost", b"413"), ("evil.example", b"421")):
            with Raw(client) as raw:
                raw.sendall(head(size, *more, host=host))
                send(raw, block, size // len(block))
                answer = raw.rest()
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"\r\nconnection: close\r\n" in answer
            assert answer.endswith(b'"}')
        client.learn([{"a": 1.0, "b": 2.0}], [1])


def test_what_is_refused_by_its_header_is_not_asked_for(serving):
    with serving() as client:
        for size, kind, status in ((80 * 2**20, "application/json", b"413"), (50, "text/plain", b"415")):
            with Raw(client) as raw:
                raw.sendall(head(size, "Expect: 100-continue", kind=kind))
                assert raw.recv(2**16).startswith(b"HTTP/1.1 " + status)
        with Raw(client) as raw:
            raw.sendall(head(len(BODY), "Expect: 100-continue", "Connection: close"))
            assert raw.recv(2**16).startswith(b"HTTP/1.1 100 Continue")
            raw.sendall(BODY)
            assert raw.rest().startswith(b"HTTP/1.1 200")


def test_a_connection_is_used_again_after_a_refusal(serving):
    with serving() as client, Raw(client) as raw:
        for kind in ("text/plain", "application/json"):
            raw.sendall(head(len(BODY), kind=kind) + BODY)
        raw.sendall(head(len(BODY), "Connection: close") + BODY)
        answers = raw.rest()
        assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"415", b"200", b"200"]
        assert client.state()["rows"] == 2


def test_a_client_that_has_closed_its_side_gets_its_answer(serving):
    with serving() as client:
        with Raw(client) as raw:
            raw.sendall(head(len(BODY)) + BODY)
            raw.shutdown(socket.SHUT_WR)
            assert b'{"rows":1,' in raw.rest()
        with Raw(client) as raw:  # not all of its request
            raw.sendall(head(len(BODY) + 1) + BODY)
            raw.shutdown(socket.SHUT_WR)
            assert raw.rest() == b""
        assert client.state()["rows"] == 1


def test_old_clients_get_answers_of_known_length(serving):
    with serving() as client:
        for host, status in (("localhost", b"200"), ("evil.example", b"421")):
            with Raw(client) as raw:
                raw.sendall(head(len(BODY), version="1.0", host=host) + BODY)
                answer = raw.rest()
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"content-length: " in answer
            assert b"chunked" not in answer


def test_a_body_does_not_count_as_the_header_that_comes_after_it(serving):
    with serving() as client, Raw(client) as raw:
        body = b" " * 2**17 + BODY
        second = head(len(BODY), "Connection: close") + BODY
        for connection in waiting_for_headers(client, begun=False):
            # as if all of it had come at once
            connection.loop.call_soon_threadsafe(connection.data_received, head(len(body)) + body + second[:20])
        assert raw.recv(2**16).startswith(b"HTTP/1.1 200")
        raw.sendall(second[20:])
        assert raw.rest().startswith(b"HTTP/1.1 200")
        assert client.state()["rows"] == 2


def test_headers_without_an_end_are_refused(serving):
    with serving() as client, Raw(client) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            send(raw, b"x" * 2**16, 1000)


def send(raw, block, times):
    for _ in range(times):
        raw.sendall(block)


def test_slow_headers_and_idle_connections_end(serving):
    """All that could go on for ever has a timer; here it is run at once."""
    with serving() as client:
        for begun in (b"", b"GET /healthz HT", head(10)[:-2]):
            with Raw(client) as raw:
                raw.sendall(begun)
                give_up(client, bool(begun))
                assert raw.rest() == b""
        with Raw(client) as raw:  # the second request of a connection
            raw.sendall(head(len(BODY)) + BODY)
            assert raw.recv(2**16).startswith(b"HTTP/1.1 200")
            raw.sendall(b"GET /healthz HT")
            give_up(client, True)
            assert raw.rest() == b""


def waiting_for_headers(client, begun):
    """Connections on which a header is expected, of which a part has come or not."""
    found = []
    while not found:
        connections = list(client.server.server_state.connections)
        found = [each for each in connections if each._waiting is not None and each._in_header == begun]
        time.sleep(0.001)
    return found


def give_up(client, begun):
    """Run the timer of the connection on which a header is expected."""
    found = waiting_for_headers(client, begun)
    assert found[0]._waiting.when() <= found[0].loop.time() + 30
    found[0].loop.call_soon_threadsafe(found[0]._give_up)


@pytest.mark.parametrize("limit", ["_LONGEST_PAUSE", "_LONGEST_BODY"])
def test_slow_bodies_are_refused(serving, monkeypatch, limit):
    monkeypatch.setattr(limits, limit, 0.05)
    with serving() as client, Raw(client) as raw:
        raw.sendall(head(len(BODY)) + BODY[:-1])
        answer = raw.recv(2**16)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"field":"body"' in answer


def test_head_is_get_without_the_body(serving):
    with serving() as client:
        for path in ("/", "/healthz", "/metrics", "/v1/state"):
            response = client.head(path)
            assert response.status_code == 200
            assert response.content == b""
        assert client.head("/v1/learn").status_code == 405
