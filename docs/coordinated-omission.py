#!/usr/bin/env python3
"""Draws docs/coordinated-omission.svg: python3 docs/coordinated-omission.py > docs/coordinated-omission.svg

A database answers in 50 ms, but stands still from 0.4 s to 1.4 s. Requests are due every 0.1 s. Above: a
client that waits for each answer before it sends the next request. Below: the schedule that users keep.
"""
STALL, SERVICE, PERIOD, END = (0.4, 1.4), 0.05, 0.1, 2.0
WIDTH, LEFT, SCALE = 760, 30, 350


def x(seconds):
    return LEFT + seconds * SCALE


def answered(start):
    """When a request that is sent at `start` is answered."""
    return STALL[1] + SERVICE if STALL[0] < start + SERVICE and start < STALL[1] else start + SERVICE


def bar(y, begin, end, colour):
    return f'<rect x="{x(begin):.1f}" y="{y:.1f}" width="{(end - begin) * SCALE:.1f}" height="6" rx="2" fill="{colour}"/>'


def text(px, py, words, extra=""):
    return f'<text x="{px:.1f}" y="{py:.1f}" {extra}>{words}</text>'


closed, now = [], 0.0
while now < END:
    end = answered(now)
    closed.append((now, end))
    now = max(now + PERIOD, end)
scheduled = [(index * PERIOD, answered(index * PERIOD)) for index in range(int(END / PERIOD))]


def row(top, title, requests):
    slow = sum(1 for begin, end in requests if end - begin > 2 * SERVICE)
    lines = [text(LEFT, top - 12, f"{title}: {slow} of {len(requests)} requests were slow", 'font-weight="600"')]
    for index, (begin, end) in enumerate(requests):
        colour = "#d1495b" if end - begin > 2 * SERVICE else "#2a9d8f"
        lines.append(bar(top + index * 7.5, begin, end, colour))
    return lines, top + len(requests) * 7.5


parts, bottom = row(70, "Sent when the one before was answered", closed)
more, bottom2 = row(bottom + 50, "Sent when due, every 0.1 s", scheduled)
height = bottom2 + 40
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="13">')
print("<title>Coordinated omission: the same stall, seen by a client that waits and by one that keeps its schedule</title>")
print(f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>')
print(f'<rect x="{x(STALL[0]):.1f}" y="10" width="{(STALL[1] - STALL[0]) * SCALE:.1f}" height="{bottom2 - 5:.1f}" fill="#f3e9d2"/>')
print(text(x(STALL[0]) + 6, 28, "the database stands still for 1 s", 'fill="#7a5c1e"'))
print("\n".join(parts + more))
for second in (0, 0.5, 1.0, 1.5, 2.0):
    print(text(x(second), height - 14, f"{second:g} s", 'text-anchor="middle" fill="#555555"'))
print("</svg>")
