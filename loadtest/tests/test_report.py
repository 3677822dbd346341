"""The report, out of the figures of a whole run."""

import gzip
import json
import pathlib
import tempfile
import unittest

from lib import report

KEPT = pathlib.Path(__file__).resolve().parents[1] / "results" / "2026-11-29"


class Kept(unittest.TestCase):
    def test_the_kept_results_give_the_kept_report_and_charts(self):
        results = json.loads(gzip.decompress((KEPT / "results.json.gz").read_bytes()))
        with tempfile.TemporaryDirectory() as folder:
            report.write(results, pathlib.Path(folder))
            written = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}
        self.assertEqual(len(written), 13)
        self.assertEqual(sorted(written), sorted(file.name for file in KEPT.iterdir() if file.suffix != ".gz"))
        for name, text in written.items():
            self.assertEqual(text, (KEPT / name).read_text(), name)
