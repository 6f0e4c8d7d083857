// What report.js draws with: elements, marks, and the words of a cell. It comes first in the same script.
'use strict';
const drawing = (() => {
  const SVG = 'http://www.w3.org/2000/svg';

  // Contents are set as text, so that no name can become markup.
  function element(name, attributes = {}, ...contents) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...contents);
    return node;
  }
  function shape(name, attributes = {}, text = '') {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    return node;
  }
  const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

  // --- buffers

  // A shape and a letter each, so that no colour is needed.
  const MARKS = {
    misplaced: {letter: 'M', path: 'M0-10L10 0 0 10-10 0z', words: 'misplaced: another token of this round'},
    stale: {letter: 'S', path: 'M-8-8H8V8H-8z', words: 'stale: from an earlier round'},
    unwritten: {letter: 'U', path: 'M9 0A9 9 0 1 1-9 0 9 9 0 1 1 9 0z', words: 'unwritten: nobody ever wrote here'},
    torn: {letter: 'T', path: 'M0-11L11 8H-11z', words: 'torn: a mixture, or a race of two writers'},
  };
  const HATCHES = ['', 'M0 12L12 0', 'M0 0L12 12', 'M6 0V12', 'M0 6H12', 'M0 12L12 0M0 0L12 12', 'M3 0V12M9 0V12', 'M6 0V12M0 6H12'];

  // Colours repeat after eight ranks; then the hatching is another one, so that a pair of both names one of 64 ranks.
  const colourOf = rank => rank % 8;
  const hatchOf = rank => (rank + Math.floor(rank / 8)) % 8;

  const SHORT = {'hidden states': 'state', 'expert ids': 'ids', weights: 'wts', 'expert outputs': 'out'};
  // What a foreign row is of, in a cell of this buffer; nothing for the buffer's own.
  const partWords = (buffer, of) => !of || of === buffer.words ? '' : ` ${SHORT[of.replace(/ \(.*/, '')] || of}`;

  const isWrong = cell => typeof cell === 'object' && 'wrong' in cell;

  // A right row is written in short, as its token + 1.
  function spelled(buffer, line, column) {
    const cell = buffer.cells[line][column];
    if (typeof cell === 'object') return cell;
    if (cell === 0) return {};
    const other = buffer.sources[line];
    const own = buffer.part === 'combine';
    return {token: cell - 1, found: cell - 1, source: own ? buffer.rank : other, writer: other, right: true};
  }
  const expectedSource = (buffer, line) => buffer.part === 'combine' ? buffer.rank : buffer.sources[line];
  const slotName = (buffer, line, column) => buffer.part === 'combine'
    ? `[${buffer.rank}, ${buffer.slots[column]}] in the memory of rank ${buffer.sources[line]}`
    : `[${buffer.sources[line]}, ${buffer.slots[column]}]`;
  const foundWords = cell => {
    if (cell.writer === undefined) return 'nothing that anybody wrote';
    const what = cell.padding ? 'padding' : `token ${cell.found} of rank ${cell.source}`;
    const of = cell.of ? ` (${cell.of})` : '';
    const when = cell.written === undefined ? '' : `, written by rank ${cell.writer} in step ${cell.written}`;
    const race = cell.lost ? `, where rank ${cell.lost.writer} wrote its token ${cell.lost.token} in the same round`
      : cell.race ? ', where two ranks wrote in one round' : '';
    return `${what}${of}${when}${race}`;
  };
  const wentWords = (buffer, cell) => {
    if (cell.went === undefined) return '';
    if (typeof cell.went === 'string') return cell.went;
    return buffer.part === 'combine' ? `in slot ${cell.went[1]} there` : `in slot [${cell.went[0]}, ${cell.went[1]}]`;
  };

  return {
    element, shape, counted, MARKS, HATCHES, colourOf, hatchOf, partWords, isWrong, spelled,
    expectedSource, slotName, foundWords, wentWords,
  };
})();

