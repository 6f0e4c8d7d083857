// Draws receive buffers and answers the controls. The words of the page are there without it.
(() => {
  const {
    element, shape, counted, MARKS, HATCHES, colourOf, hatchOf, partWords, isWrong, spelled,
    expectedSource, slotName, foundWords, wentWords,
  } = drawing;
  const data = JSON.parse(document.getElementById('data').textContent) || {};

  // --- chapters: one of several articles at a time

  function choose(nav) {
    const articles = [...document.querySelectorAll('.chapter')];
    const select = element('select', {id: 'chapter-choice'});
    const links = [...nav.querySelectorAll('a')];
    for (const link of links)
      select.append(element('option', {value: link.hash.slice(1)}, `${link.textContent} · ${link.nextElementSibling.textContent}`));
    const show = id => {
      for (const article of articles) article.hidden = article.id !== id;
      select.value = id;
    };
    const follow = () => {
      const target = document.getElementById(location.hash.slice(1));
      const article = target && target.closest('.chapter');
      if (article) show(article.id);
      return article;
    };
    select.addEventListener('change', () => {
      history.replaceState(null, '', '#' + select.value);
      show(select.value);
    });
    window.addEventListener('hashchange', () => {
      const article = follow();
      if (article) article.scrollIntoView();
    });
    nav.querySelector('ul').replaceWith(
      element('div', {class: 'chooser'}, element('label', {for: 'chapter-choice'}, nav.dataset.what), select));
    if (!follow() && articles.length > 0) show(articles[0].id);
  }

  // --- buffers

  class Viewer {
    constructor(root, replay) {
      this.root = root;
      this.id = root.dataset.replay;
      this.replay = replay;
      this.steps = replay.steps;
      const first = replay.first;
      const firstStep = first ? first.step : replay.first_bad_step;
      this.at = Math.max(this.steps.findIndex(step => step.step === firstStep), 0);
      this.layer = first ? first.layer : 0;
      this.rank = first ? first.rank : 0;
      this.part = first ? first.part : 'hidden';
      this.build();
      this.show();
    }

    field(name, label, control, extra = '') {
      control.id = `${this.id}-${name}`;
      return element('div', {class: `field ${extra}`}, element('label', {for: control.id}, label), control);
    }

    build() {
      const last = this.steps.length - 1;
      this.slider = element('input', {type: 'range', min: 0, max: last, step: 1, value: this.at});
      this.title = element('output', {for: `${this.id}-step`});
      const back = element('button', {type: 'button', 'aria-label': 'Previous step'}, '‹');
      const on = element('button', {type: 'button', 'aria-label': 'Next step'}, '›');
      const stepField = this.field('step', 'Step', this.slider, 'step');
      const slide = element('div', {class: 'slide'}, back, this.slider, on);
      slide.hidden = last === 0;
      stepField.append(slide);
      const ticks = element('div', {class: 'ticks', 'aria-hidden': 'true'});
      if (last > 0 && last < 60)
        for (const step of this.steps) ticks.append(element('span', {class: step.bad ? 'bad' : ''}, step.bad ? '▲' : '·'));
      stepField.append(ticks, this.title);
      this.rankSelect = element('select');
      this.layerSelect = element('select');
      this.partSelect = element('select');
      this.rowSelect = element('select');
      for (const [value, words] of new Map(this.replay.buffers.map(buffer => [buffer.part, buffer.words]))) {
        const rows = value === 'combine' ? 'Rows read back' : 'Rows received';
        this.partSelect.append(element('option', {value}, `${rows}: ${words}`));
      }
      const layers = [...new Set(this.replay.buffers.map(buffer => buffer.layer))];
      for (const layer of layers) this.layerSelect.append(element('option', {value: layer}, `layer ${layer}`));
      this.rowField = this.field('row', 'Marked row', this.rowSelect);
      const controls = element('div', {class: 'controls', role: 'group', 'aria-label': 'What to draw'}, stepField);
      if (this.replay.buffers.length > 0) {
        controls.append(this.field('rank', 'Rank', this.rankSelect), this.field('part', 'Part', this.partSelect));
        const layerField = this.field('layer', 'Layer', this.layerSelect);
        if (layers.length > 1) controls.append(layerField);
        controls.append(this.rowField);
      }
      this.drawing = element('figure', {class: 'drawing'});
      this.detail = element('p', {class: 'detail', 'aria-live': 'polite'});
      this.table = element('details', {class: 'equivalent'}, element('summary', {}, 'The same as a table'));
      this.root.append(controls, this.drawing, this.detail, this.table);

      const go = at => {
        this.at = Math.min(Math.max(at, 0), last);
        this.show();
      };
      this.slider.addEventListener('input', () => go(Number(this.slider.value)));
      back.addEventListener('click', () => go(this.at - 1));
      on.addEventListener('click', () => go(this.at + 1));
      this.rankSelect.addEventListener('change', () => { this.rank = Number(this.rankSelect.value); this.show(); });
      this.partSelect.addEventListener('change', () => { this.part = this.partSelect.value; this.show(); });
      this.layerSelect.addEventListener('change', () => { this.layer = Number(this.layerSelect.value); this.show(); });
      this.rowSelect.addEventListener('change', () => { this.mark(this.rowSelect.value); });
      this.table.addEventListener('toggle', () => this.fillTable());
    }

    buffersOf(rank) {
      const step = this.steps[this.at].step;
      return this.replay.buffers.filter(
        buffer => buffer.step === step && buffer.layer === this.layer && buffer.rank === rank);
    }

    // Everything that depends on step, layer, rank and part.
    show() {
      const step = this.steps[this.at];
      this.slider.value = this.at;
      this.slider.setAttribute('aria-valuetext', step.title);
      this.title.textContent = step.title;
      for (const section of document.querySelectorAll(`section.step[id^="${this.id}-step-"]`))
        section.hidden = Number(section.dataset.step) !== step.step;
      this.rankSelect.replaceChildren();
      for (let rank = 0; rank < this.replay.ranks; ++rank) {
        const buffers = this.buffersOf(rank);
        const wrong = buffers.reduce((sum, buffer) => sum + buffer.wrong, 0);
        const words = buffers.length === 0 ? ', not drawn' : wrong > 0 ? `, ${counted(wrong, 'wrong row')}` : '';
        this.rankSelect.append(element('option', {value: rank}, `rank ${rank}${words}`));
      }
      this.rankSelect.value = this.rank;
      this.partSelect.value = this.part;
      this.layerSelect.value = this.layer;
      this.buffer = this.buffersOf(this.rank).find(buffer => buffer.part === this.part);
      this.wrong = [];
      this.rowSelect.replaceChildren();
      if (this.buffer) {
        this.buffer.cells.forEach((line, i) => line.forEach((cell, j) => {
          if (!isWrong(cell)) return;
          this.wrong.push([i, j]);
          this.rowSelect.append(element('option', {value: `${i},${j}`}, `slot ${slotName(this.buffer, i, j)}: ${cell.wrong}`));
        }));
      }
      this.rowField.hidden = this.wrong.length === 0;
      // Best shown is a row whose place in the picture is known.
      const told = this.rowOfStory() || this.wrong.find(([i, j]) => Array.isArray(this.buffer.cells[i][j].went)) || this.wrong[0];
      this.mark(told ? told.join(',') : '');
    }

    // Where the row lies that "What happened" tells of, if this is its buffer.
    rowOfStory() {
      const {first} = this.replay;
      if (!this.buffer || !first || first.slot === undefined) return undefined;
      const here = ['step', 'layer', 'rank', 'part'].every(key => this.buffer[key] === first[key]);
      return here && this.wrong.find(([i, j]) => this.buffer.sources[i] === first.source && this.buffer.slots[j] === first.slot);
    }

    mark(place) {
      this.marked = place;
      if (place) this.rowSelect.value = place;
      this.draw();
      this.describe();
      this.fillTable();
    }

    caption() {
      const {buffer} = this;
      const whole = this.wrong.length === buffer.wrong && buffer.searched;
      const kinds = {};
      for (const [i, j] of this.wrong) kinds[buffer.cells[i][j].wrong] = (kinds[buffer.cells[i][j].wrong] || 0) + 1;
      const list = Object.entries(kinds).map(([kind, count]) => `${count} ${kind}`).join(', ');
      const lines = buffer.part === 'combine'
        ? `Rank ${buffer.rank} reads the outputs for its tokens back from every rank, at the places that its own R = ${buffer.r} says.`
        : `Rank ${buffer.rank} has R = ${buffer.r}, so it divides its buffer into ${counted(buffer.ranks, 'source')} × ${counted(buffer.r, 'slot')}.`;
      let out = `${lines} ${this.wrong.length === 0 ? 'No row here is wrong.' : `Wrong rows: ${list}.`}`;
      if (!whole) out += ` In all ${buffer.wrong} are wrong${buffer.searched ? '' : ' among the first 256 slots of each source'}.`;
      const hidden = [];
      if (buffer.sources.length < buffer.ranks) hidden.push(`${buffer.ranks - buffer.sources.length} of ${buffer.ranks} sources`);
      if (buffer.slots.length < buffer.r) hidden.push(`${buffer.r - buffer.slots.length} of ${buffer.r} slots`);
      if (hidden.length > 0) out += ` Not drawn: ${hidden.join(' and ')}.`;
      return out;
    }

    draw() {
      this.drawing.replaceChildren();
      const {buffer} = this;
      if (!buffer) {
        const none = this.steps[this.at].why_empty || (this.replay.buffers.length === 0
          ? 'No receive buffer is drawn: this run has no rows to draw.'
          : 'This buffer is not drawn: the rank takes no part in the all-to-all of this step, or the page would have grown too large.');
        this.drawing.append(element('figcaption', {}, none));
        return;
      }
      const narrow = this.root.clientWidth < 560;
      this.cell = {width: narrow ? 68 : 84, height: 52, gap: narrow ? 8 : 12, left: narrow ? 58 : 92, top: 34};
      this.elsewhere = [];
      const svg = shape('svg', {role: 'img', 'aria-label': this.caption()});
      svg.append(this.hatches());
      this.axes(svg);
      buffer.cells.forEach((line, i) => line.forEach((_, j) => this.slot(svg, i, j)));
      this.arrows(svg);
      const {width, height, gap, left, top} = this.cell;
      let right = left + buffer.slots.length * (width + gap) + 40;
      let bottom = top + buffer.sources.length * (height + gap) + 8;
      for (const box of this.elsewhere) {
        bottom = Math.max(bottom, box.y + box.height + 8);
        right = Math.max(right, box.x + box.width + 12);
      }
      svg.setAttribute('viewBox', `0 0 ${right} ${bottom}`);
      svg.setAttribute('width', right);
      svg.setAttribute('height', bottom);
      this.drawing.append(element('figcaption', {}, this.caption()),
        element('div', {class: 'wide', tabindex: 0, role: 'group', 'aria-label': 'Drawing of the buffer'}, svg), this.legend());
    }

    hatches() {
      const defs = shape('defs');
      HATCHES.forEach((path, i) => {
        const pattern = shape('pattern', {id: `${this.id}-hatch${i}`, width: 12, height: 12, patternUnits: 'userSpaceOnUse'});
        if (path) pattern.append(shape('path', {d: path, class: 'hatch-line'}));
        defs.append(pattern);
      });
      return defs;
    }

    place(line, column) {
      const {width, height, gap, left, top} = this.cell;
      return {x: left + column * (width + gap), y: top + line * (height + gap), width, height};
    }

    axes(svg) {
      const {buffer} = this;
      const {left, top, width, gap} = this.cell;
      buffer.slots.forEach((slot, j) => {
        const skips = j === 0 ? slot > 0 : slot !== buffer.slots[j - 1] + 1;
        svg.append(shape('text', {class: 'axis', x: left + j * (width + gap) + width / 2, y: top - 12, 'text-anchor': 'middle'},
          `${skips ? '⋯ ' : ''}${j === 0 ? 'slot ' : ''}${slot}`));
      });
      const word = left < 80 ? '' : buffer.part === 'combine' ? 'memory of ' : 'from ';
      buffer.sources.forEach((source, i) => {
        const box = this.place(i, 0);
        const skips = i === 0 ? source > 0 : source !== buffer.sources[i - 1] + 1;
        const text = shape('text', {class: 'axis', x: left - 10, y: box.y + box.height / 2 + 4, 'text-anchor': 'end'});
        if (word.length > 5) {
          text.append(shape('tspan', {x: left - 10, dy: -7}, `${skips ? '⋮ ' : ''}${word}`), shape('tspan', {x: left - 10, dy: 15}, `rank ${source}`));
        } else {
          text.textContent = `${skips ? '⋮ ' : ''}${word}rank ${source}`;
        }
        svg.append(text);
      });
    }

    slot(svg, i, j) {
      const {buffer} = this;
      const cell = spelled(buffer, i, j);
      const box = this.place(i, j);
      const classes = ['slot'];
      const written = cell.writer !== undefined;
      if (cell.wrong) classes.push('wrong', cell.wrong);
      else if (!written) classes.push('empty');
      else if (!cell.right) classes.push('unread');
      if (written) classes.push(`w${colourOf(cell.writer)}`);
      if (this.marked === `${i},${j}`) classes.push('marked');
      const group = shape('g', {'data-slot': `${buffer.sources[i]},${buffer.slots[j]}`, 'data-state': cell.wrong || (cell.right ? 'right' : written ? 'unread' : 'empty')});
      group.append(shape('title', {}, this.words(i, j)));
      const rectangle = {...box, rx: 5};
      group.append(shape('rect', {...rectangle, class: classes.join(' ')}));
      if (written) group.append(shape('rect', {...rectangle, class: 'hatch', fill: `url(#${this.id}-hatch${hatchOf(cell.writer)})`}));
      const middle = box.x + box.width / 2;
      const found = !written ? (cell.wrong ? 'nothing' : '') : cell.padding ? 'padding' : `r${cell.source} t${cell.found}${partWords(buffer, cell.of)}`;
      const lost = cell.lost && `+ r${cell.lost.writer} t${cell.lost.token}${partWords(buffer, cell.lost.of)}`;
      const below = cell.wrong === 'torn' ? lost || (cell.race ? 'two writers' : 'a mixture')
        : cell.wrong ? `not r${expectedSource(buffer, i)} t${cell.token}` : written && !cell.right ? 'not read' : '';
      if (found) group.append(shape('text', {class: 'main', x: middle, y: box.y + (below ? 25 : 31), 'text-anchor': 'middle'}, found));
      if (below) group.append(shape('text', {class: 'small', x: middle, y: box.y + 41, 'text-anchor': 'middle'}, below));
      if (cell.wrong) group.append(this.badge(cell.wrong, box.x + box.width - 3, box.y + 3));
      if (cell.wrong) group.addEventListener('click', () => this.mark(`${i},${j}`));
      svg.append(group);
    }

    badge(kind, x, y) {
      const mark = MARKS[kind];
      const group = shape('g', {transform: `translate(${x} ${y})`});
      group.append(shape('path', {class: 'badge', d: mark.path}), shape('text', {class: 'letter', y: kind === 'torn' ? 5.5 : 3.5}, mark.letter));
      return group;
    }

    // From the slot that a token should have had to the one it got.
    arrows(svg) {
      const {buffer} = this;
      const many = this.wrong.length > 8;
      const drawn = this.wrong.filter(place => !many || place.join(',') === this.marked);
      drawn.sort((a, b) => (a.join(',') === this.marked) - (b.join(',') === this.marked));
      for (const [i, j] of drawn) {
        const cell = buffer.cells[i][j];
        if (cell.went === undefined) continue;
        const marked = `${i},${j}` === this.marked;
        const line = Array.isArray(cell.went) ? buffer.sources.indexOf(cell.went[0]) : -1;
        const column = Array.isArray(cell.went) ? buffer.slots.indexOf(cell.went[1]) : -1;
        if (line >= 0 && column >= 0) this.arrow(svg, this.place(i, j), this.place(line, column), marked);
        else if (marked) this.arrowOut(svg, this.place(i, j), cell);
      }
    }

    // To a box below the slots: down the gap beside the column, to the box's upper edge, so that no line runs through words.
    arrowOut(svg, from, cell) {
      const {left, top, height, gap} = this.cell;
      const words = Array.isArray(cell.went) ? `it went to slot [${cell.went[0]}, ${cell.went[1]}], not drawn` : `it lies ${cell.went}`;
      const lines = this.root.clientWidth < 560 ? words.match(/.{1,38}(?: |$)/g) : [words];
      const end = {x: from.x + from.width + gap / 2, y: top + this.buffer.sources.length * (height + gap) + 14};
      const longest = Math.max(...lines.map(line => line.length));
      const box = {x: left, y: end.y, width: Math.max(longest * 6 + 28, end.x - left + 20), height: 18 + 16 * lines.length};
      this.elsewhere.push(box);
      svg.append(shape('rect', {...box, rx: 5, class: 'elsewhere'}));
      lines.forEach((line, i) => svg.append(shape('text', {class: 'small', x: box.x + 14, y: box.y + 21 + 16 * i}, line)));
      const start = {x: from.x + from.width - 8, y: from.y + height - 5};
      this.line(svg, {start, end, bend: {x: end.x, y: start.y + 22}}, true);
    }

    arrow(svg, from, to, marked) {
      this.line(svg, this.route(from, to), marked);
    }

    line(svg, {start, end, bend}, marked) {
      const angle = Math.atan2(end.y - bend.y, end.x - bend.x);
      const size = marked ? 11 : 8;
      const corner = turn => `${end.x - size * Math.cos(angle + turn)} ${end.y - size * Math.sin(angle + turn)}`;
      const neck = {x: end.x - size * .7 * Math.cos(angle), y: end.y - size * .7 * Math.sin(angle)};
      const path = `M${start.x} ${start.y}Q${bend.x} ${bend.y} ${neck.x} ${neck.y}`;
      const name = `arrow${marked ? ' marked' : ''}`;
      if (marked) svg.append(shape('path', {d: path, class: 'halo'}));
      svg.append(shape('path', {d: path, class: name}), shape('circle', {cx: start.x, cy: start.y, r: marked ? 4 : 2.5, class: 'head'}),
        shape('path', {d: `M${end.x} ${end.y}L${corner(.45)}L${corner(-.45)}z`, class: 'head'}));
    }

    // Within a line below the slots, within a column beside them, else from edge to edge.
    route(from, to) {
      const side = (box, down) => ({x: box.x + box.width / 2, y: down ? box.y + box.height - 5 : box.y + 5});
      if (to.y === from.y) {
        const start = side(from, true), end = side(to, true);
        return {start, end, bend: {x: (start.x + end.x) / 2, y: start.y + 26}};
      }
      if (to.x === from.x) {
        const edge = box => ({x: box.x + box.width - 5, y: box.y + box.height / 2 + 8});
        const start = edge(from), end = edge(to);
        return {start, end, bend: {x: start.x + 56, y: (start.y + end.y) / 2}};
      }
      const down = to.y > from.y;
      const start = side(from, down), end = side(to, !down);
      return {start, end, bend: {x: (start.x + end.x) / 2 + (down ? 18 : -18), y: (start.y + end.y) / 2}};
    }

    legend() {
      const list = element('ul', {class: 'legend', 'aria-label': 'Legend'});
      list.append(element('li', {}, 'r1 t0 = token 0 of rank 1; each rank has its own pair of colour and hatching'));
      for (const [kind, mark] of Object.entries(MARKS)) {
        const icon = shape('svg', {width: 24, height: 24, viewBox: '-12 -12 24 24', 'aria-hidden': 'true'});
        icon.append(this.badge(kind, 0, 0));
        list.append(element('li', {}, icon, mark.words));
      }
      list.append(element('li', {}, '→ from the slot that a row should have had to the one it got'));
      return list;
    }

    words(i, j) {
      const {buffer} = this;
      const cell = spelled(buffer, i, j);
      const name = `Slot ${slotName(buffer, i, j)}`;
      if (cell.token === undefined && cell.writer === undefined) return `${name}: no row is expected, and none was written.`;
      if (cell.token === undefined) return `${name}: no row is expected. In it lies ${foundWords(cell)}; nobody reads it.`;
      const wanted = `token ${cell.token} of rank ${expectedSource(buffer, i)}`;
      if (!cell.wrong) return `${name}: ${wanted}, as expected.`;
      return `${name} should hold ${wanted}.${this.wayWords(buffer, buffer.sources[i], cell)} In it lies ${foundWords(cell)}: ${cell.wrong}.`;
    }

    // Where the expected row was put; where that is here, who wrote over it.
    wayWords(buffer, writer, cell) {
      const r = this.steps[this.at].r || [];
      if (cell.went !== undefined) {
        const known = r[writer] !== undefined && r[writer] !== null && r[writer] !== buffer.r;
        const why = known ? `, for its R is ${r[writer]} and that of rank ${buffer.rank} is ${buffer.r}` : '';
        return ` Rank ${writer} put it ${wentWords(buffer, cell)}${why}.`;
      }
      const won = cell.writer === writer && cell.found === cell.token;
      const other = won ? cell.lost : cell.race && {writer: cell.writer, token: cell.found, of: cell.of, index: cell.index};
      if (!other || other.writer === writer || buffer.part === 'combine') return '';
      // Row numbers are those of the first block, which begins at the same byte whatever R is.
      const sum = buffer.part === 'hidden' && other.of === buffer.words && r[other.writer]
        ? ` (row ${other.writer} × ${r[other.writer]} + ${other.index} = ${other.writer * r[other.writer] + other.index})` : '';
      const size = r[other.writer] ? `, whose R is ${r[other.writer]},` : '';
      return ` Rank ${writer} put it there. But rank ${other.writer}${size} put its own token ${other.token} into the same bytes${sum}; who writes last wins.`;
    }

    describe() {
      this.detail.hidden = !this.marked;
      this.detail.textContent = this.marked ? this.words(...this.marked.split(',').map(Number)) : '';
    }

    fillTable() {
      this.table.hidden = !this.buffer;
      const old = this.table.querySelector('figure');
      if (old) old.remove();
      if (!this.buffer || !this.table.open) return;
      const {buffer} = this;
      const body = element('tbody');
      buffer.cells.forEach((line, i) => line.forEach((_, j) => {
        const cell = spelled(buffer, i, j);
        if (cell.token === undefined && cell.writer === undefined) return;
        const expected = cell.token === undefined ? 'no row' : `token ${cell.token} of rank ${expectedSource(buffer, i)}`;
        body.append(element('tr', {}, element('th', {scope: 'row'}, slotName(buffer, i, j)), element('td', {}, expected),
          element('td', {}, foundWords(cell)), element('td', {}, cell.wrong || (cell.token === undefined ? 'not read' : 'right')),
          element('td', {}, wentWords(buffer, cell))));
      }));
      const head = element('tr');
      for (const word of ['slot', 'expected', 'found', 'so it is', 'the expected row went to']) head.append(element('th', {scope: 'col'}, word));
      this.table.append(element('figure', {class: 'table'}, element('figcaption', {}, this.caption()),
        element('div', {class: 'wide', tabindex: 0, role: 'group', 'aria-label': 'The buffer as a table'},
          element('table', {}, element('thead', {}, head), body))));
    }
  }

  document.documentElement.classList.add('script');
  const viewers = [];
  for (const root of document.querySelectorAll('.viewer')) {
    const replay = data.replays && data.replays[root.dataset.replay];
    if (replay) viewers.push(new Viewer(root, replay));
  }
  for (const nav of document.querySelectorAll('nav.chapters')) choose(nav);
  let width = window.innerWidth;
  window.addEventListener('resize', () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const viewer of viewers) viewer.draw();
  });
  for (const details of document.querySelectorAll('details'))
    details.addEventListener('toggle', () => { for (const viewer of viewers) if (details.contains(viewer.root)) viewer.draw(); });
  for (const button of document.querySelectorAll('button[data-copy]'))
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
      } catch {  // no permission: the old way
        const area = element('textarea', {});
        area.value = button.dataset.copy;
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
      }
      button.textContent = 'Copied';
    });
  window.addEventListener('beforeprint', () => {
    for (const details of document.querySelectorAll('details')) details.open = true;
  });
})();
