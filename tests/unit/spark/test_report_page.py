"""The page of the report: complete, well-formed, offline, and deaf to what groups are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from coterie.spark.pipeline.report.figures import FIGURES
from coterie.spark.pipeline.report.page import make_page
from coterie.spark.pipeline.report.write import render
from tests.unit.spark.answers import HOSTILE, NOW, a_day, answers

_VOID = {"meta", "link", "img", "br", "hr", "input"}


class _Page(HTMLParser):
    """Collects what a browser would see; raises for tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def html() -> str:
    return render(make_page(a_day(), source=f"cluster {HOSTILE[0]}", generated_at=NOW))


@pytest.fixture(scope="module")
def page(html: str) -> _Page:
    return _Page(html)


def test_it_is_well_formed_and_says_what_there_is(page: _Page) -> None:
    ids = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert ids == ["fleet", "lag", "rebalances", "stale", "findings", "resets", "missing"]
    text = " ".join(page.text)
    for words in ("1,204", "8 h 36 min", "console-consumer-*", "Offsets set back", "member churn"):
        assert words in text


def test_a_lag_beyond_the_history_is_no_exact_figure(page: _Page) -> None:
    cells = [each.strip() for each in page.text]
    # Of the worst group, as a tile and in the table; of the next one all is known.
    assert cells.count("\N{GREATER-THAN OR EQUAL TO} 8 h 36 min") == 2
    assert "4 h 18 min" in cells
    legends = [each for each in cells if each.startswith("up to ") or each.endswith(" or more")]
    assert sum(each.endswith(" or more") for each in legends) == 1


def test_hostile_names_are_text_and_nothing_else(html: str, page: _Page) -> None:
    assert not [tag for tag, _ in page.tags if tag in {"script", "img", "iframe"}]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert HOSTILE[7] in "".join(page.text)  # no template looked at it
    shown = "".join(page.text)
    for name in HOSTILE[:4]:
        assert name not in html
        assert name in shown


def test_it_opens_offline(html: str, page: _Page) -> None:
    for _, attributes in page.tags:
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"url\(|@import|<link", html)
    assert "default-src 'none'" in html


def test_every_figure_shows_its_sql(page: _Page) -> None:
    shown = "".join(page.text)
    assert [figure.name for figure in FIGURES if figure.sql not in shown] == []


def test_it_says_what_is_not_shown(page: _Page) -> None:
    shown = " ".join(page.text)
    for words in (
        "15 of 231 are shown",
        "12 of 40 are shown",
        "20 of 130 are shown",
        "20 of 77 are shown",
        "1 of 19 are shown",
        "1 of 4,000 are shown",
        " of 2,500).",
    ):
        assert words in shown
    assert "2 of 2 are shown" not in shown
    badges = dict(zip(page.text, page.text[1:], strict=False))
    assert (badges["Missing "], badges["Offsets set back "]) == ("4,000", "19")


def test_findings_say_how_far_they_go(page: _Page) -> None:
    cells = [each.strip() for each in page.text]
    for words in ("12 partitions", "1 partition", "2 topics", "31,415"):
        assert words in cells
    # As many as the tile says, where a row stands for all partitions of a group.
    assert {("Findings", "13"), ("Findings ", "13")} <= set(pairwise(page.text))


def test_links_lead_somewhere_and_charts_have_names(page: _Page) -> None:
    ids = {attributes.get("id") for _, attributes in page.tags}
    targets = [(a.get("href") or "")[1:] for tag, a in page.tags if tag == "a"]
    assert set(targets) <= ids
    assert len(targets) > 5
    charts = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert charts
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in charts)


def test_a_page_without_anything() -> None:
    page = _Page(render(make_page(answers({}), source="nothing", generated_at=NOW)))
    text = " ".join(page.text)
    for words in ("Nobody is behind.", "There was none.", "There are none.", "All is well."):
        assert words in text
