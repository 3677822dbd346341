"""Bar charts as SVG text: user and system time stacked, the spread of the rounds as a whisker.

Colours follow the reader's light or dark setting. A bar several times longer than ours is cut, with
a mark, so that one slow competitor does not flatten the rest; its figure is written out.
"""

from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 760, 220, 150
ROW, BAR, TOP = 34, 18, 64
# A bar is cut at this many times ours.
CUT = 6

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .user, .one { fill: #1a7f64 } .system { fill: #8fd3c1 }
  .ours .user, .ours .one { fill: #b35900 } .ours .system { fill: #f2b27a }
  .ours text { font-weight: 600 }
  line { stroke: #1f2328; stroke-width: 1.2 } .axis { stroke: #d1d9e0 }
  .cut { stroke: #ffffff; stroke-width: 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 }
    .user, .one { fill: #3fb68b } .system { fill: #1d5c49 }
    .ours .user, .ours .one { fill: #f0883e } .ours .system { fill: #7a4415 }
    line { stroke: #e6edf3 } .axis { stroke: #3d444d } .cut { stroke: #0d1117 }
  }
"""


@dataclass(frozen=True)
class Bar:
    """One competitor: the parts from left to right, and the least and most of their sum."""

    label: str
    parts: list
    least: float
    most: float
    text: str
    ours: bool = False


def svg(title, subtitle, bars, legend):
    """The chart as SVG text; `legend` names the parts, by their class."""
    height = TOP + ROW * len(bars) + 16
    longest = _longest(bars)
    scale = (WIDTH - LEFT - RIGHT) / longest
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{escape(title)}</text>',
        f'<text class="small" x="8" y="42">{escape(subtitle)}</text>',
        *_legend(legend),
        f'<line class="axis" x1="{LEFT}" y1="{TOP - 8}" x2="{LEFT}" y2="{height - 12}"/>',
    ]
    for number, bar in enumerate(bars):
        lines += _row(bar, TOP + ROW * number, scale, longest)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _longest(bars):
    """What the axis reaches to: the longest bar, unless that is many times ours (or the first)."""
    base = next((sum(bar.parts) for bar in bars if bar.ours), sum(bars[0].parts))
    longest = max(bar.most for bar in bars)
    return (min(longest, base * CUT) if base > 0 else longest) or 1


def _row(bar, y, scale, longest):
    at, lines = float(LEFT), [f'<g class="{"ours" if bar.ours else "peer"}">']
    lines.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>')
    classes = ("user", "system") if len(bar.parts) == 2 else ("one",)
    end = LEFT + longest * scale
    # A bar that is cut keeps the proportion of its parts.
    shown = min(scale, (end - LEFT) / max(sum(bar.parts), 1e-9))
    for name, part in zip(classes, bar.parts, strict=True):
        width = part * shown
        lines.append(f'<rect class="{name}" x="{at:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>')
        at += width
    if sum(bar.parts) > longest * 1.001:
        middle = end - 14
        lines.append(
            f'<line class="cut" x1="{middle - 4:.1f}" y1="{y + BAR + 3}" x2="{middle + 4:.1f}" y2="{y - 3}"/>'
        )
    elif bar.most > bar.least:
        lines += _whisker(LEFT + bar.least * scale, min(LEFT + bar.most * scale, end), y + BAR / 2)
    text_at = max(at, min(LEFT + bar.most * scale, end)) + 8
    lines.append(f'<text x="{text_at:.1f}" y="{y + 14}">{escape(bar.text)}</text></g>')
    return lines


def _whisker(least, most, y):
    return [
        f'<line x1="{least:.1f}" y1="{y}" x2="{most:.1f}" y2="{y}"/>',
        f'<line x1="{least:.1f}" y1="{y - 4}" x2="{least:.1f}" y2="{y + 4}"/>',
        f'<line x1="{most:.1f}" y1="{y - 4}" x2="{most:.1f}" y2="{y + 4}"/>',
    ]


def _legend(names):
    lines, x = [], WIDTH - 130
    for row, (name, text) in enumerate(names):
        y = 14 + 16 * row
        lines.append(f'<rect class="{name}" x="{x}" y="{y}" width="10" height="10"/>')
        lines.append(f'<text class="small" x="{x + 16}" y="{y + 9}">{escape(text)}</text>')
    return lines
