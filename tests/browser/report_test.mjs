// The report pages in headless Chromium: node report_test.mjs --program A2ASIM --source DIR --work DIR --chromium PATH TEST
// A test that cannot run here prints "SKIPPED: why" and ends with 77.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const options = {};
let wanted = '';
for (let i = 2; i < process.argv.length; ++i) {
  if (process.argv[i].startsWith('--')) options[process.argv[i].slice(2)] = process.argv[++i];
  else wanted = process.argv[i];
}

function skip(why) {
  console.log(`SKIPPED: ${why}`);
  process.exit(77);
}

const WRONG = ['misplaced', 'stale', 'unwritten', 'torn'];
const PARTS = ['combine', 'hidden', 'ids', 'weights'];  // by payload + 1
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

const scenario = name => path.join(options.source, 'sim', 'scenarios', `${name}.yaml`);
const launch = path.join(options.source, 'tools', 'examples', 'collapse.sh');

// Exit code 1 is a finding, not a failure.
function a2asim(...args) {
  const run = spawnSync(options.program, args, {encoding: 'utf8', maxBuffer: 1 << 28});
  assert.ok(run.status === 0 || run.status === 1, `a2asim ${args.join(' ')}: ${run.status} ${run.stderr}`);
  return run.stdout;
}
function page(name, ...args) {
  const file = path.join(options.work, `${name}.html`);
  a2asim(...args, '--report', file);
  return file;
}

const problems = [];
async function open(browser, file, context = {}) {
  const where = await browser.newContext(context);
  where.setDefaultTimeout(200_000);  // a busy machine answers late
  const tab = await where.newPage();
  tab.on('console', message => { if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text()); });
  tab.on('pageerror', error => problems.push(error.message));
  tab.on('dialog', dialog => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  tab.on('request', request => { if (!request.url().startsWith('file:')) problems.push(`asks for ${request.url()}`); });
  await tab.goto(pathToFileURL(file).href);
  return tab;
}

// What the drawing marks: "source,slot state" of each wrong slot.
const marked = tab => tab.$$eval('.viewer g[data-slot]',
  (slots, wrong) => slots.filter(slot => wrong.includes(slot.dataset.state)).map(slot => `${slot.dataset.slot} ${slot.dataset.state}`), WRONG);
const visibleStep = tab => tab.locator('section.step:visible');
const contrast = (a, b) => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(Number).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
  return (high + .05) / (low + .05);
};

const tests = {
  // Step by step and rank by rank, against what `replay --format json` says.
  async rows(browser) {
    const tab = await open(browser, page('rows', 'replay', scenario('collapse')));
    const facts = JSON.parse(a2asim('replay', scenario('collapse'), '--format', 'json')).scenarios[0];
    const first = facts.steps[facts.first_bad_step];
    const drawn = new Set();
    for (const layer of ['0', '1']) {
      await tab.selectOption('#s0-layer', layer);
      for (let rank = 0; rank < facts.ep_size; ++rank) {
        await tab.selectOption('#s0-rank', String(rank));
        for (const part of PARTS) {
          await tab.selectOption('#s0-part', part);
          for (const row of await marked(tab)) drawn.add(`${layer} ${rank} ${part} ${row}`);
        }
      }
    }
    const all = WRONG.reduce((sum, kind) => sum + (first.counts[kind] || 0), 0);
    assert.equal(drawn.size, all, 'every wrong row of the step is drawn, and no other');
    let compared = 0;
    for (const found of first.findings) {
      if (!found.row || !WRONG.includes(found.id)) continue;
      const {row} = found;
      const line = row.payload < 0 ? row.slice : row.source;
      assert.ok(drawn.has(`${found.layer} ${found.rank} ${PARTS[row.payload + 1]} ${line},${row.slot} ${found.id}`), found.message);
      ++compared;
    }
    assert.ok(compared > 50);
  },

  // The row that is marked, its arrow and its words.
  async marked_row(browser) {
    const tab = await open(browser, page('marked', 'replay', scenario('collapse')));
    const facts = JSON.parse(a2asim('replay', scenario('collapse'), '--format', 'json')).scenarios[0];
    const rows = await tab.$$eval('#s0-row option', list => list.map(option => option.value));
    assert.ok(rows.length > 1);
    for (const row of rows) {
      await tab.selectOption('#s0-row', row);
      assert.equal(await tab.locator('.viewer .slot.marked').count(), 1);
      const [slot, state] = await tab.$eval('.viewer .slot.marked', node => [node.parentNode.dataset.slot, node.parentNode.dataset.state]);
      const [source, index] = slot.split(',').map(Number);
      const rank = Number(await tab.inputValue('#s0-rank'));
      const layer = Number(await tab.inputValue('#s0-layer'));
      const part = PARTS.indexOf(await tab.inputValue('#s0-part')) - 1;
      const found = facts.steps[facts.first_bad_step].findings.find(one => one.row && one.rank === rank && one.layer === layer &&
        one.row.payload === part && one.row.source === source && one.row.slot === index && one.id === state);
      assert.ok(found, `slot ${slot} of rank ${rank}`);
      const words = await tab.textContent('.viewer .detail');
      assert.ok(words.includes(`should hold token ${found.row.token} of rank ${source}`), words);
      assert.ok(words.includes(state), words);
      if (found.row.lost_writer >= 0) assert.ok(words.includes(`rank ${found.row.lost_writer}`), `the other writer: ${words}`);
      if (found.row.found_token >= 0) assert.ok(words.includes(`token ${found.row.found_token} of rank ${found.row.found_source}`), words);
      const moved = found.row.written_offset >= 0 && found.row.written_offset !== found.row.expected_offset;
      assert.equal(await tab.locator('.viewer .arrow.marked').count(), moved ? 1 : 0);
    }
    await tab.click('.viewer summary');
    const table = await tab.textContent('.viewer details table');
    assert.ok(table.includes('misplaced') && table.includes('the expected row went to'));
  },

  // The picture opens on the row that "What happened" tells of, and marks it.
  async row_of_story(browser) {
    const file = path.join(options.work, 'sixteen.yaml');
    writeFileSync(file, `name: sixteen
sglang: pr26643
launch: "python3 -m sglang.launch_server --model-path M --tp-size 16 --dp-size 16 --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --disable-cuda-graph"
env: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: "256"}
model: {num_experts: 32, top_k: 4, hidden_size: 64, layers: 3}
seed: 3
steps:
  - {mode: decode, tokens: [3, 9, 8, 2, 5, 9, 7, 10, 9, 1, 9, 0, 7, 4, 8, 3]}
`);
    for (const [name, source] of [['sixteen', file], ['two', scenario('collapse')], ['skips', scenario('skip_all_gather')]]) {
      const tab = await open(browser, page(`story_${name}`, 'replay', source));
      const told = /Rank (\d+) sent its token (\d+) to rank (\d+), as row (\d+) of those it sends there/.exec(await tab.innerText('#s0-story'));
      assert.ok(told, name);
      const [from, token, to, row] = told.slice(1);
      assert.equal(await tab.inputValue('#s0-rank'), to, name);
      assert.equal(await tab.inputValue('#s0-part'), 'hidden', name);
      assert.equal(await tab.$eval('.viewer .slot.marked', node => node.parentNode.dataset.slot), `${from},${row}`, name);
      assert.ok((await tab.textContent('.viewer .detail')).includes(`should hold token ${token} of rank ${from}`), name);
    }
  },

  // A row that two ranks wrote: the slot and the words name both, with the sum that shows why.
  async two_writers(browser) {
    const tab = await open(browser, page('writers', 'replay', scenario('collapse')));
    const facts = JSON.parse(a2asim('replay', scenario('collapse'), '--format', 'json')).scenarios[0];
    const step = facts.steps[facts.first_bad_step];
    const raced = step.findings.filter(found => found.id === 'torn' && found.row && found.row.race && found.row.payload === 0 &&
      found.layer === 0 && found.row.found_writer === found.row.source && found.row.lost_payload !== -1);
    assert.ok(raced.length > 0);
    for (const found of raced) {
      const {row} = found;
      assert.ok(row.lost_writer >= 0 && row.lost_writer !== row.source);
      await tab.selectOption('#s0-rank', String(found.rank));
      await tab.selectOption('#s0-part', 'hidden');
      const slot = tab.locator(`.viewer g[data-slot="${row.source},${row.slot}"]`);
      assert.ok((await slot.textContent()).includes(`+ r${row.lost_writer} t${row.lost_token}`));
      await slot.click();
      const words = await tab.textContent('.viewer .detail');
      const r = step.runtime_max_tokens_per_rank[row.lost_writer];
      assert.ok(words.includes(`But rank ${row.lost_writer}, whose R is ${r}, put its own token ${row.lost_token} into the same bytes`), words);
      assert.ok(words.includes(`(row ${row.lost_writer} × ${r} + `), words);
    }
  },

  // An arrow that leaves the drawing ends at the edge of the box that says where to, and runs through no words.
  async arrow_out(browser) {
    for (const width of [375, 1280]) {
      const tab = await open(browser, page('arrow', 'replay', scenario('collapse')), {viewport: {width, height: 800}});
      let met = 0;
      for (let rank = 0; rank < 4; ++rank) {
        await tab.selectOption('#s0-rank', String(rank));
        for (const part of PARTS) {
          await tab.selectOption('#s0-part', part);
          for (const row of await tab.$$eval('#s0-row option', list => list.map(option => option.value))) {
            await tab.selectOption('#s0-row', row);
            const boxes = await tab.evaluate(() => {
              const of = node => (({x, y, width, height}) => ({x, y, width, height}))(node.getBBox());
              const box = document.querySelector('.viewer .elsewhere');
              if (!box) return null;
              const svg = box.ownerSVGElement.viewBox.baseVal;
              return {box: of(box), arrow: of(document.querySelector('.viewer .arrow.marked')), width: svg.width, height: svg.height,
                words: [...box.parentNode.querySelectorAll('.elsewhere ~ .small')].map(of)};
            });
            if (!boxes) continue;
            ++met;
            const {box, arrow, words} = boxes;
            assert.ok(arrow.y + arrow.height <= box.y + .5, 'the line ends at the upper edge');
            assert.ok(words.length > 0);
            for (const word of words)
              assert.ok(word.x >= box.x && word.x + word.width <= box.x + box.width && word.y >= box.y && word.y + word.height <= box.y + box.height, 'words lie in their box');
            assert.ok(box.x + box.width <= boxes.width && box.y + box.height <= boxes.height, 'the box lies in the drawing');
          }
        }
      }
      assert.ok(met > 3);
    }
  },

  async slider_and_keyboard(browser) {
    const tab = await open(browser, page('keyboard', 'replay', scenario('graph_buckets')));
    const facts = JSON.parse(a2asim('replay', scenario('graph_buckets'), '--format', 'json')).scenarios[0];
    const slider = tab.locator('#s0-step');
    assert.equal(await slider.inputValue(), String(facts.first_bad_step), 'the page opens at the first bad step');
    await slider.focus();
    await tab.keyboard.press('Home');
    for (const step of facts.steps) {
      assert.equal(await slider.inputValue(), String(step.step));
      assert.equal(await visibleStep(tab).count(), 1);
      const text = await visibleStep(tab).innerText();
      assert.ok(text.includes(`Step ${step.step}, ${step.phase.replace('_', ' ')}: ${step.verdict}`), text);
      const sizes = await visibleStep(tab).locator('tbody td:nth-child(2)').allInnerTexts();
      const wanted = new Set(step.runtime_max_tokens_per_rank.map(String));
      assert.deepEqual(new Set(sizes.map(size => size.replace(/[^\d]/g, ''))), wanted);
      const marks = new Set(await visibleStep(tab).locator('tbody td:nth-child(2) .mark').allInnerTexts());
      assert.equal(marks.size, wanted.size > 1 ? wanted.size : 0, 'different sizes have different marks');
      await tab.keyboard.press('ArrowRight');
    }
    await tab.keyboard.press('Home');
    await tab.click('button[aria-label="Next step"]');
    assert.equal(await slider.inputValue(), '1');
    // Everything that can be used is reached by Tab, and shows the focus.
    await tab.evaluate(() => document.activeElement.blur());
    const reached = new Set();
    for (let i = 0; i < 40; ++i) {
      await tab.keyboard.press('Tab');
      const [id, outline] = await tab.evaluate(() => [document.activeElement.id || document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]);
      reached.add(id);
      if (id !== 'BODY') assert.notEqual(outline, 'none', `focus is seen on ${id}`);
    }
    for (const id of ['s0-step', 's0-rank', 's0-part', 's0-layer', 's0-row', 'SUMMARY']) assert.ok(reached.has(id), id);
    await tab.locator('#s0-rank').focus();
    const before = await tab.inputValue('#s0-rank');
    await tab.keyboard.press(before === '0' ? 'ArrowDown' : 'ArrowUp');
    assert.notEqual(await tab.inputValue('#s0-rank'), before);
  },

  async light_and_dark(browser) {
    const file = page('theme', 'replay', scenario('collapse'));
    const seen = {};
    for (const colorScheme of ['light', 'dark']) {
      const tab = await open(browser, file, {colorScheme});
      const colours = await tab.evaluate(() => {
        const of = (node, what) => getComputedStyle(node)[what];
        return {
          page: of(document.body, 'backgroundColor'), ink: of(document.body, 'color'), muted: of(document.querySelector('.lead'), 'color'),
          slots: [...document.querySelectorAll('.slot')].map(node => of(node, 'fill')).filter(fill => fill !== 'none'),
          text: of(document.querySelector('.drawing .main'), 'fill'),
        };
      });
      assert.ok(contrast(colours.page, colours.ink) > 7, colorScheme);
      assert.ok(contrast(colours.page, colours.muted) > 4.5, colorScheme);
      for (const fill of colours.slots) assert.ok(contrast(fill, colours.text) > 4.5, `${colorScheme}: ${fill}`);
      seen[colorScheme] = colours.page;
    }
    assert.notEqual(seen.light, seen.dark);
  },

  // No page scrolls sideways on a narrow phone, whatever is chosen, however long a file's name is and whatever the font.
  async phone(browser) {
    const named = name => {
      const copy = path.join(options.work, `a_path_without_a_place_to_break_it_${'x'.repeat(80)}_${name}`);
      return copyFileSync(name.endsWith('.sh') ? launch : path.join(options.source, 'sim', 'scenarios', name), copy), copy;
    };
    const files = [page('phone', 'replay', named('collapse.yaml')), page('phone_check', 'check', '--sglang', 'pr29461', '--file', named('collapse.sh')),
      page('phone_explore', 'explore', '--sglang', 'pr29461'), page('phone_all', 'replay', named('collapse.yaml'), named('capture.yaml')),
      page('phone_plan', 'plan', '--model', 'DeepSeek-V3', '--ep', '8,16', '--tokens', '64,4096')];
    const widest = 'body, code, select, button { font-family: monospace; }';
    for (const file of files) {
      const tab = await open(browser, file, {viewport: {width: 320, height: 740}, bypassCSP: true});
      const fits = async what => {
        const [wide, width] = await tab.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
        assert.ok(wide <= width, `${path.basename(file)}, ${what}: ${wide} > ${width}`);
      };
      await fits('as opened');
      for (const summary of await tab.locator('summary:visible').all()) await summary.click();
      await fits('with everything unfolded');
      const slider = tab.locator('input[type=range]:visible').first();
      if (await slider.count() > 0) {
        await slider.focus();
        await tab.keyboard.press('End');
        await fits('at the last step');
      }
      await tab.addStyleTag({content: widest});
      await fits('in a wide font');
    }
    // What matters is in sight: whole captions, and the column of R without scrolling.
    for (const width of [320, 375])
      for (const file of [...files, page('phone_point', 'plan', '--model', 'DeepSeek-V3', '--ep', '8', '--tokens', '64')]) {
        const tab = await open(browser, file, {viewport: {width, height: 740}});
        const seen = await tab.evaluate(() => {
          const inside = node => node.getBoundingClientRect().left >= 0 && node.getBoundingClientRect().right <= window.innerWidth + .5;
          const shown = node => node.getClientRects().length > 0;
          const stacked = node => getComputedStyle(node.closest('table').tBodies[0]).display === 'block';
          const heads = [...document.querySelectorAll('th[scope=col]')].filter(node => node.textContent === 'R' && shown(node) && !stacked(node));
          const captions = [...document.querySelectorAll('figcaption, caption')].filter(shown);
          const cells = heads.flatMap(head => [...head.closest('table').tBodies[0].rows].map(row => row.cells[head.cellIndex]));
          return {heads: heads.length, captions: captions.length,
            out: [...heads, ...cells, ...captions].filter(node => !inside(node)).map(node => `${node.tagName} ${node.textContent}`)};
        });
        assert.deepEqual(seen.out, [], `${path.basename(file)} at ${width}`);
        assert.ok(seen.captions > 0 && (seen.heads > 0 || file.includes('_plan') || file.includes('_point') || file.includes('_explore')), path.basename(file));
      }
  },

  // On a phone no table is cut; only matrices and drawings scroll.
  async narrow_tables(browser) {
    const check = ['check', '--sglang', 'v0.5.13', '--num-experts', '256', '--top-k', '8', '--hidden-size', '7168'];
    const files = [page('narrow_check', ...check, launch), page('narrow_all', 'check', '--sglang', 'all', launch),
      page('narrow_upgrade', 'upgrade', '--from', 'v0.5.13', '--to', 'v0.5.16', launch), page('narrow_replay', 'replay', scenario('collapse')),
      page('narrow_learn', 'learn', '3')];
    for (const file of files) {
      const tab = await open(browser, file, {viewport: {width: 320, height: 740}});
      await tab.evaluate(() => { for (const details of document.querySelectorAll('details')) details.open = true; });
      const cut = await tab.$$eval('table:not(.matrix)', list => list.filter(node => node.getClientRects().length > 0 &&
        !node.closest('.viewer') && node.getBoundingClientRect().right > window.innerWidth + .5).map(node => node.textContent.slice(0, 80)));
      assert.deepEqual(cut, [], path.basename(file));
    }
  },

  async paper(browser) {
    const file = page('paper', 'replay', scenario('collapse'));
    const tab = await open(browser, file, {viewport: {width: 660, height: 900}});
    await tab.emulateMedia({media: 'print'});
    assert.equal(await tab.locator('.slide').first().isVisible(), false);
    assert.ok(await tab.locator('.drawing svg').first().isVisible());
    assert.ok((await visibleStep(tab).innerText()).includes('Step 0'));
    const pdf = path.join(options.work, 'paper.pdf');
    await tab.pdf({path: pdf, format: 'A4'});
    assert.ok(statSync(pdf).size > 20000);
    // Every command's page; a block that cannot scroll on paper must not need it.
    const check = ['--num-experts', '256', '--top-k', '8', '--hidden-size', '7168', '--file', launch];
    const plan = ['plan', '--model', 'DeepSeek-V3', '--tokens', '64,8192'];
    const files = [file, page('paper_check', 'check', '--sglang', 'pr29461', ...check), page('paper_explore', 'explore', '--sglang', 'pr29461'),
      page('paper_plan', ...plan, '--ep', '8,16'), page('paper_point', 'plan', '--model', 'DeepSeek-V3', '--ep', '8', '--tokens', '64')];
    for (const one of files) {
      const sheet = await open(browser, one, {viewport: {width: 660, height: 900}});
      await sheet.evaluate(() => { for (const details of document.querySelectorAll('details')) details.open = true; });
      await sheet.emulateMedia({media: 'print'});
      const cut = await sheet.evaluate(() => [document.documentElement, ...document.querySelectorAll('pre, .wide, table, figure, code')]
        .filter(node => node.getClientRects().length > 0 && (node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0 || node.getBoundingClientRect().right > window.innerWidth + 1))
        .map(node => `${node.tagName} ${node.textContent.slice(0, 60)}`));
      assert.deepEqual(cut, [], `${path.basename(one)}: nothing is cut off at the side of the paper`);
    }
    // On a screen what scrolls is reached by keyboard.
    for (const one of files) {
      const screen = await open(browser, one);
      assert.equal(await screen.locator('pre:not([tabindex="0"])').count(), 0, path.basename(one));
    }
  },

  async without_script(browser) {
    const tab = await open(browser, page('plain', 'replay', scenario('collapse')), {javaScriptEnabled: false});
    const text = await tab.innerText('body');
    for (const part of ['Disagrees', 'What happened', 'knows only its own number of rows, 4', 'What to change', 'Step 2, eager decode'])
      assert.ok(text.includes(part), part);
  },

  async names_are_text(browser) {
    const file = path.join(options.work, 'names.yaml');
    writeFileSync(file, `name: "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
sglang: pr26643
parallel: {tp_size: 2, dp_size: 2, enable_dp_attention: true, moe_a2a_backend: flashinfer, max_num_tokens: 16}
env: {A: "<b onmouseover=alert(3)>"}
model: {num_experts: 4, top_k: 2, hidden_size: 16}
steps: [{mode: decode, tokens: [2, 1]}]
`);
    const tab = await open(browser, page('names', 'replay', file));
    assert.equal(await tab.locator('img').count(), 0);
    assert.equal(await tab.locator('script').count(), 2);
    assert.ok((await tab.innerText('body')).includes('<img src=x onerror=alert(2)>'));
  },

  async check(browser) {
    const args = ['check', '--sglang', 'pr29461', '--num-experts', '256', '--top-k', '8', '--hidden-size', '7168', '--file', launch];
    const tab = await open(browser, page('check', ...args));
    const facts = JSON.parse(a2asim(...args, '--format', 'json'));
    await tab.evaluate(() => { for (const details of document.querySelectorAll('details')) details.open = true; });
    const text = await tab.innerText('body');
    const bad = facts.findings.find(finding => finding.severity === 'error');
    for (const part of [bad.message.slice(1), ...bad.why, bad.fix.slice(1), facts.capacity.source]) assert.ok(text.includes(part), part);
    const sizes = (await tab.locator('#found figure tbody td:nth-child(2)').allInnerTexts()).map(size => Number(size.replace(/[^\d]/g, '')));
    assert.deepEqual(new Set(sizes), new Set(bad.witness.runtime_max_tokens_per_rank));
    assert.ok((await tab.locator('#sizes .bar').count()) >= 3);
    assert.equal(await tab.locator('.viewer svg[role=img]').count(), 1, 'the witness is replayed and drawn');
    const replayed = await visibleStep(tab).locator('tbody td:nth-child(2)').allInnerTexts();
    assert.deepEqual(new Set(replayed.map(size => Number(size.replace(/[^\d]/g, '')))), new Set(bad.witness.runtime_max_tokens_per_rank));
  },

  // Verdict, cause, fix, ranks and the strip of memory without much scrolling; the button copies the changed command.
  async first_screen(browser) {
    const args = ['check', '--sglang', 'v0.5.13', '--num-experts', '256', '--top-k', '8', '--hidden-size', '7168', launch];
    const file = page('first', ...args);
    for (const [viewport, most] of [[{width: 1280, height: 900}, 900], [{width: 375, height: 812}, 2 * 812]]) {
      const tab = await open(browser, file, {viewport});
      for (const part of ['h1.verdict', '.lead', '.fixes', '.sizes', '.strip svg', '.strip figcaption', '.fixes button']) {
        const box = await tab.locator(part).first().boundingBox();
        assert.ok(box && box.y + box.height <= most, `${part} ends at ${box && box.y + box.height}, ${viewport.width} wide`);
      }
      const broken = await tab.$$eval('code:not(.long)', list => list.filter(code => code.textContent.startsWith('--') && code.getClientRects().length > 1).map(code => code.textContent));
      assert.deepEqual(broken, [], 'no option is cut at a hyphen');
    }
    const tab = await open(browser, file, {viewport: {width: 1280, height: 900}, permissions: ['clipboard-read', 'clipboard-write']});
    const text = await tab.innerText('.strip figcaption');
    assert.match(text, /Rank \d+ writes its first row at .* Rank 0 looks for it at/);
    const button = tab.locator('.fixes button').first();
    const copied = await button.getAttribute('data-copy');
    assert.ok(copied.includes('launch_server') && !copied.includes('--enable-dp-lm-head'), copied);
    await button.click();
    await tab.locator('.fixes button', {hasText: 'Copied'}).first().waitFor();  // the clipboard answers later
  },

  // The heat maps of a sweep, against the JSON: numbers, shades, and text that stays readable on every shade.
  async plan(browser) {
    const args = ['plan', '--model', 'DeepSeek-V3', '--ep', '8,16,32', '--tokens', '64,256,8192', '--link-gbps', '400'];
    const file = page('plan', ...args);
    const points = JSON.parse(a2asim(...args, '--format', 'json')).points;
    for (const colorScheme of ['light', 'dark']) {
      const tab = await open(browser, file, {colorScheme, viewport: {width: 375, height: 740}});
      const maps = await tab.$$eval('#sweep svg', list => list.map(svg => ({
        label: svg.getAttribute('aria-label'),
        cells: [...svg.querySelectorAll('.heat')].map(cell => ({
          words: cell.nextElementSibling.textContent, opacity: Number(cell.getAttribute('fill-opacity')),
          fill: getComputedStyle(cell).fill, ink: getComputedStyle(cell.nextElementSibling).fill,
        })),
      })));
      assert.equal(maps.length, 7);
      const behind = await tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const numbers = colour => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
      for (const {label, cells} of maps) {
        assert.equal(cells.length, points.length);
        for (const cell of cells) {
          assert.ok(label.includes(cell.words), `${label} has ${cell.words}`);
          if (cell.fill === 'none') continue;
          const mixed = numbers(cell.fill).map((value, i) => value * cell.opacity + numbers(behind)[i] * (1 - cell.opacity));
          assert.ok(contrast(`rgb(${mixed.join(',')})`, cell.ink) > 4.5, `${colorScheme}: ${cell.words} at ${cell.opacity}`);
        }
      }
      const sent = points.map(point => point.traffic.expected.dispatch.sent_remote_bytes);
      const shades = maps[0].cells.map(cell => cell.opacity);
      for (let i = 0; i < sent.length; ++i)
        for (let j = 0; j < sent.length; ++j) assert.ok(sent[i] <= sent[j] ? shades[i] <= shades[j] : true, 'more is not lighter');
      maps[5].cells.forEach((cell, i) => {
        if (points[i].can_run === 'yes') assert.match(cell.words, /^\d+$/);
        else assert.equal(cell.words, points[i].can_run);
      });
      assert.ok(points.some(point => point.can_run === 'prefill only'));
      const [wide, width] = await tab.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      assert.ok(wide <= width, `${wide} > ${width}`);
    }
    // The answer first: does it fit, how long does it take; on a phone no table is cut.
    for (const more of [['--ep', '8', '--tokens', '64'], ['--ep', '8,16', '--tokens', '64,256']]) {
      const phone = await open(browser, page(`plan_phone_${more[1]}`, 'plan', '--model', 'DeepSeek-V3', '--link-gbps', '400', ...more), {viewport: {width: 320, height: 740}});
      assert.match(await phone.innerText('h1'), /^Fits on every GPU listed$/);
      assert.match(await phone.innerText('.lead'), /workspace takes .* per rank.*at least .* (us|ms).* per step/);
      assert.equal(await phone.$eval('main > section', node => node.id), 'headroom');
      const cut = await phone.$$eval('table, .wide', list => list.filter(node => node.getClientRects().length > 0 &&
        (node.scrollWidth > node.clientWidth + 1 || node.getBoundingClientRect().right > window.innerWidth)).map(node => node.textContent.slice(0, 60)));
      assert.deepEqual(cut, [], `${more}: nothing is cut at 320 pixels`);
    }
    const one = await open(browser, page('plan_one', 'plan', '--model', 'DeepSeek-V3', '--ep', '8', '--tokens', '64'));
    for (const id of ['workspace', 'traffic', 'slots', 'headroom', 'deployment']) assert.ok(await one.locator(`#${id}`).isVisible(), id);
  },

  // Every bad cell leads to its witness, shown alone.
  async explore(browser) {
    const args = ['explore', '--sglang', 'pr29461'];
    const tab = await open(browser, page('explore', ...args));
    const facts = JSON.parse(a2asim(...args, '--format', 'json')).generations[0];
    const bad = facts.matrix.flatMap(row => Object.values(row.phases)).filter(cell => ['disagrees', 'overflow'].includes(cell.outcome)).length;
    const links = tab.locator('#matrix .cell.error a');
    assert.equal(await links.count(), bad);
    assert.ok(bad > 0);
    for (let i = 0; i < Math.min(bad, 4); ++i) {
      const target = (await links.nth(i).getAttribute('href')).slice(1);
      await links.nth(i).click();
      assert.equal(await tab.locator('.chapter:visible').count(), 1);
      const chapter = tab.locator(`#${target}`);
      assert.ok(await chapter.isVisible());
      assert.equal(await tab.inputValue('#chapter-choice'), target);
      const text = await chapter.innerText();
      for (const part of ['The smallest batch that shows it', 'Why', 'The scenario, for a2asim replay', 'Step by step']) assert.ok(text.includes(part), part);
    }
  },

  // One matrix, versions as columns; marks alone where there are many, with the words for who does not see them.
  async matrix(browser) {
    const args = ['explore', '--sglang', 'v0.5.13..v0.5.16', '--budget', '20000'];
    const file = page('matrix', ...args);
    const facts = JSON.parse(a2asim(...args, '--format', 'json')).generations;
    for (const width of [1280, 320]) {
      const tab = await open(browser, file, {viewport: {width, height: 900}});
      assert.equal(await tab.locator('#matrix thead th').count(), facts.length + 1);
      assert.ok((await tab.innerText('#matrix thead')).includes('v0.5.13'), 'releases, not pull requests');
      const classes = new Set(await tab.$$eval('#matrix tbody th', list => list.map(node => node.firstChild.textContent)));
      assert.ok(classes.has('collapsed'));
      const cells = await tab.$$eval('#matrix tbody tr:first-child td', list => list.map(node => node.textContent.trim()));
      assert.match(cells[0], /✕\s+disagrees/, 'what is wrong stands first');
      const [wide, all] = await tab.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      assert.ok(wide <= all, `${wide} > ${all}`);
    }
  },

  // What went as its file expects is good news, in colour and in words.
  async as_expected(browser) {
    const good = await open(browser, page('expected', 'replay', scenario('collapse')));
    assert.match(await good.innerText('h1'), /^Disagrees, as expected$/);
    assert.equal(await good.locator('h1.verdict.good').count(), 1);
    assert.equal(await good.$eval('#s0-story', node => node.querySelector('h3').textContent), 'What to change');
    assert.equal(await good.locator('#s0-story > details').first().getAttribute('open'), null, 'the setting is closed');
    const bad = await open(browser, page('unexpected', 'replay', '--sglang', 'pr26643', scenario('collapse')));
    assert.equal(await bad.locator('h1.verdict.bad').count(), 1);
  },

  async several_scenarios(browser) {
    const tab = await open(browser, page('several', 'replay', scenario('collapse'), scenario('graph_buckets'), scenario('capture')));
    assert.equal(await tab.locator('.chapter:visible').count(), 1);
    assert.equal(await tab.locator('#chapter-choice option').count(), 3);
    await tab.selectOption('#chapter-choice', 's2');
    assert.ok(await tab.locator('#s2').isVisible());
    assert.equal(await tab.locator('#s0').isVisible(), false);
  },
};

async function main() {
  if (wanted === '--list' || !(wanted in tests)) throw new Error(`no test '${wanted}': ${Object.keys(tests).join(' ')}`);
  if (!options.chromium || !existsSync(options.chromium)) skip('no chromium (apt-get install chromium)');
  // Some systems have a program of this name that only says where to get it.
  const version = spawnSync(options.chromium, ['--version'], {encoding: 'utf8'});
  if (version.status !== 0) skip(`${options.chromium} --version fails: ${(version.error?.message ?? version.stderr).trim()}`);
  let chromium;
  try {
    ({chromium} = await import('playwright-core'));
  } catch {
    skip('no playwright-core (npm ci in tests/browser)');
  }
  mkdirSync(options.work, {recursive: true});
  const browser = await chromium.launch({executablePath: options.chromium, args: FLAGS});
  try {
    await tests[wanted](browser);
    assert.deepEqual(problems, [], 'no errors on the console, and nothing is loaded');
  } finally {
    await browser.close();
  }
  console.log(`${wanted}: ok`);
}
await main();
