#!/usr/bin/env python3
"""Reports (--report=FILE.html) of all commands that write them: well-formed, complete, and of one file.

With --browser they are opened in headless Chromium, in light and in dark colours, and printed: the script runs without an
error, makes timelines zoomable, and the paper has all sections, no heading of which stands alone (where pdftotext is there to
read it). Skipped (77) where there is no Chromium.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

SKIPPED = 77
MOST_PAPER = 16
COMMON = ['Configuration', 'Versions and machine']
# What stands on paper below the heading of a section, on the same page.
BEGINS_WITH = {'Curves': 'training loss', 'Predicted step': 'device 0', 'Timeline': 'device 0', 'Plan': 'global batch',
               'Memory': 'device 0', 'Configuration': 'model =', 'Versions and machine': 'oneDNN'}
PAGES = {
    'train --model=two_column --data=digits --plan=hybrid --devices=4 --steps=6 --eval-every=3':
        ['Curves', 'Predicted beside measured', 'Timeline', 'Plan', 'Memory', *COMMON],
    'plan --model=alexnet --plan=auto --devices=4 --batch=64 --machine=titan-2013 --draws=0':
        ['Predicted step', 'Timeline', 'Plan', 'Memory', 'Layers', 'Plans compared', *COMMON],
    'simulate --model=resnet18 --plan=hybrid --devices=8 --batch=64 --machine=dgx1-v100 --draws=2':
        ['Predicted step', 'Timeline', 'Plan', 'Memory', *COMMON],
    'plan --model=resnet152 --plan=data --devices=8 --batch=256 --machine=dgx1-v100 --draws=0':
        ['Predicted step', 'Timeline', 'Plan', 'Memory', 'Layers', *COMMON],
    'table --model=alexnet2012 --draws=2':
        ['Predicted beside measured', 'Predicted step', 'Memory', 'Timelines', 'Plans', *COMMON],
}


class Page(HTMLParser):
    """Which elements are open, what was wrong, and what the page says."""
    VOID = {'meta', 'br', 'hr', 'img', 'input', 'link'}
    LOADS = {'src', 'srcset', 'data', 'action', 'poster', 'background', 'formaction'}

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.sections, self.ids, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        self.wrong += [f'<{tag}> is not closed' for tag in self.open]
        if len(self.ids) != len(set(self.ids)):
            self.wrong.append('an id stands twice')

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name == 'id':
                self.ids.append(value)
            if name in self.LOADS or (name.endswith('href') and not value.startswith('#')) or name.startswith('on'):
                self.wrong.append(f'<{tag} {name}="{value}">')

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f'</{tag}> at {self.getpos()} closes something else')

    def handle_data(self, data):
        if self.open and self.open[-1] == 'h2':
            self.sections.append(data)


def check_page(command, text, sections):
    page = Page(text)
    wrong = page.wrong[:5]
    if page.sections != sections:
        wrong.append(f'expected sections {sections}, found {page.sections}')
    if page.tags.count('script') != 1:
        wrong.append('expected one script')
    for loads in ('http://', 'https://', 'url(', '@import', 'fetch(', 'XMLHttpRequest'):
        if loads in text:
            wrong.append(f'found {loads}')
    if page.tags.count('figure') < 3:
        wrong.append('expected three figures or more')
    return [f'{command}: {line}' for line in wrong]


def headings_alone(paper):
    """Headings whose page has not what their section begins with."""
    if not shutil.which('pdftotext'):
        return []
    text = subprocess.run(['pdftotext', '-layout', paper, '-'], capture_output=True, text=True, check=True).stdout
    return [f'on paper "{heading}" stands without its "{content}"'
            for page in text.split('\f') for heading, content in BEGINS_WITH.items()
            if heading in (line.strip() for line in page.splitlines()) and content not in page]


def open_in_browser(browser, file, sections):
    """What is wrong with a page in Chromium."""
    base = [browser, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--window-size=1300,2400',
            f'--user-data-dir={file.parent / "profile"}', '--enable-logging=stderr', '--virtual-time-budget=2000']
    wrong = []

    def run(*flags):
        done = subprocess.run([*base, *flags, file.as_uri()], capture_output=True, text=True, errors='replace', timeout=240)
        wrong.extend(line for line in done.stderr.splitlines() if 'CONSOLE' in line)
        return done.stdout

    dom = run('--dump-dom')
    timelines, tools = dom.count('class="timeline"'), dom.count('class="tools"')
    if timelines == 0 or timelines != tools:
        wrong.append(f'expected buttons at {timelines} timelines, found {tools}')
    pictures = []
    for scheme, setting in (('dark', '0'), ('light', '1')):
        picture = file.with_suffix(f'.{scheme}.png')
        run(f'--screenshot={picture}', f'--blink-settings=preferredColorScheme={setting}')
        pictures.append(picture.read_bytes() if picture.exists() else b'')
    if not all(pictures) or pictures[0] == pictures[1]:
        wrong.append('expected a dark picture and another light one')
    paper = file.with_suffix('.pdf')
    run(f'--print-to-pdf={paper}', '--no-pdf-header-footer')
    pages = len(re.findall(rb'/Type\s*/Page\b', paper.read_bytes())) if paper.exists() else 0
    if not 2 <= pages <= MOST_PAPER:
        wrong.append(f'expected 2 to {MOST_PAPER} pages of paper, found {pages}')
    if paper.exists():
        wrong += headings_alone(paper)
    return [f'{file.name}: {line}' for line in wrong]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', required=True, type=Path)
    parser.add_argument('--browser', action='store_true')
    parser.add_argument('--keep', type=Path, help='a folder for the pages, to look at')
    arguments = parser.parse_args()
    browser = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
    if arguments.browser and not browser:
        print('skipped: no chromium is installed')
        return SKIPPED
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for command, sections in PAGES.items():
            name = '-'.join(word.rsplit('=', 1)[-1] for word in command.split()[:2])
            file = (folder / f'{name}.html').resolve()
            subprocess.run([arguments.build / 'colonnade', *command.split(), f'--report={file}'], check=True,
                           stdout=subprocess.DEVNULL)
            wrong += check_page(command, file.read_text(encoding='utf-8'), sections)
            if arguments.browser:
                wrong += open_in_browser(browser, file, sections)
    for line in wrong:
        print(line)
    print(f'{len(PAGES)} reports, {len(wrong)} things wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
