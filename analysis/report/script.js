// Draws the charts of the report as SVG from the data in the page. No library, no request: see the
// head of src/analyze/render/html.rs for why. All text goes in through textContent, never as markup.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const tip = document.getElementById('tip');
  const DASHES = ['', '8 3', '2 3', '10 3 2 3', '5 2', '14 4'];
  const colour = (run) => `var(--run${run % 6})`;
  const dash = (run) => DASHES[run % 6];

  // ---- elements ----
  const add = (parent, name, attributes, text) => {
    const one = document.createElement(name);
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    if (text !== undefined) one.textContent = text;
    if (parent) parent.append(one);
    return one;
  };
  const draw = (parent, name, attributes, text) => {
    const one = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    if (text !== undefined) one.textContent = text;
    parent.append(one);
    return one;
  };

  // ---- words ----
  const grouped = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
  const short = (n) => (!Number.isFinite(n) ? '–' : n === 0 ? '0' : Math.abs(n) >= 100 ? grouped(n) : String(Number(n.toPrecision(3))));
  const duration = (ns, digits = 3) => {
    const [unit, name] = ns < 1e3 ? [1, 'ns'] : ns < 999.5e3 ? [1e3, 'µs'] : ns < 999.5e6 ? [1e6, 'ms'] : [1e9, 's'];
    const value = ns / unit;
    return `${value >= 1000 ? grouped(value) : digits === 3 && value < 999.5 && unit > 1
      ? value.toPrecision(3) : Number(value.toPrecision(digits))} ${name}`;
  };
  const moment = (ns, step) => {
    const s = ns / 1e9;
    if (step >= 3600e9) return `${Number((s / 3600).toPrecision(6))} h`;
    if (step >= 60e9) return `${Number((s / 60).toPrecision(6))} min`;
    if (step >= 1e7) return `${Number(s.toPrecision(9))} s`;
    return step >= 1e4 ? `${Number((s * 1e3).toPrecision(9))} ms` : `${Number((s * 1e6).toPrecision(9))} µs`;
  };
  const stretch = (from, length) => `${moment(from, length)} – ${moment(from + length, length)}`;

  // ---- scales ----
  const linear = (low, high, count) => {
    if (high <= low) high = low + 1;
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.7);
    const ticks = [];
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) ticks.push(tick);
    return { at: (value) => (value - low) / (high - low), back: (share) => low + share * (high - low), ticks, step, low, high };
  };
  const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((one) => [one * 1e3, one * 1e6])
    .concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800].map((one) => one * 1e9))
    .sort((one, other) => one - other);
  const time = (high, count) => {
    const step = STEPS.find((one) => high / one <= count) || STEPS[STEPS.length - 1];
    const ticks = [];
    for (let tick = 0; tick <= high; tick += step) ticks.push(tick);
    return { at: (value) => value / high, back: (share) => share * high, ticks, step, low: 0, high };
  };
  const log = (low, high, count) => {
    low = Math.max(low, 1e-12); if (high <= low) high = low * 10;
    const span = Math.log10(high / low);
    const factors = span > count ? [1] : span > count / 3 ? [1, 3] : span > 0.8 ? [1, 2, 5] : [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
    let ticks = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high); power++)
      for (const factor of factors) { const tick = factor * 10 ** power; if (tick >= low * 0.9999 && tick <= high * 1.0001) ticks.push(tick); }
    while (ticks.length > count * 1.6) ticks = ticks.filter((_, index) => index % 2 === 0);
    return { at: (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low), back: (share) => low * (high / low) ** share, ticks, low, high };
  };
  const nines = (percent) => -Math.log10(Math.max(1 - percent / 100, 1e-12));

  // ---- one chart ----
  // panels: [{height, y, format, title, paint(g, X, Y)}] share the x axis and one cursor.
  // stops: x values that the cursor visits; words(index): what the tip says there.
  const charts = [];
  const chart = (parent, options) => {
    const figure = add(parent, 'figure', { class: options.wide ? 'wide' : '' });
    const caption = add(figure, 'figcaption');
    add(caption, 'b', {}, options.title);
    const note = add(caption, 'span');
    const box = add(figure, 'div', { style: 'position:relative' });
    const hole = add(box, 'div');
    const foot = add(figure, 'div');
    const behind = add(figure, 'details');
    add(behind, 'summary', {}, 'The numbers of this chart');
    const frame = add(behind, 'div', { class: 'frame', tabindex: '0', role: 'region', 'aria-label': `numbers of: ${options.title}` });
    let lastWidth = 0, at = -1;

    const fill = () => {
      frame.replaceChildren();
      if (!behind.open) return;
      const { head, rows } = options.now().table();
      const table = add(frame, 'table');
      const line = add(add(table, 'thead'), 'tr');
      head.forEach((cell) => add(line, 'th', { scope: 'col' }, cell));
      const body = add(table, 'tbody');
      rows.forEach((row) => {
        const one = add(body, 'tr');
        row.forEach((cell, index) => add(one, index ? 'td' : 'th', index ? {} : { scope: 'row' }, cell));
      });
    };
    behind.addEventListener('toggle', fill);

    const render = () => {
      const width = Math.max(280, Math.round(box.clientWidth));
      lastWidth = width;
      const now = options.now(width);
      figure.hidden = !now;
      if (!now) return;
      note.textContent = now.note || '';
      const left = 62, right = 14, gap = 26, inner = width - left - right;
      const height = now.panels.reduce((sum, panel) => sum + panel.height + (panel.title ? 18 : 0), 0) + gap * (now.panels.length - 1) + 48;
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      const say = { viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: '0', 'aria-label': `${options.title}. ${now.note || ''} Arrow keys read it value by value.` };
      for (const key in say) svg.setAttribute(key, say[key]);
      const X = (value) => left + now.x.at(value) * inner;
      let top = 6;
      const spots = [];
      hole.replaceChildren();
      for (const panel of now.panels) {
        if (panel.title) { draw(svg, 'text', { x: left, y: top + 10, class: 'panel' }, panel.title); top += 18; }
        const base = top, Y = (value) => base + (1 - panel.y.at(value)) * panel.height;
        for (const tick of panel.y.ticks) {
          draw(svg, 'line', { x1: left, x2: width - right, y1: Y(tick), y2: Y(tick), class: 'grid' });
          draw(svg, 'text', { x: left - 8, y: Y(tick) + 4, 'text-anchor': 'end' }, panel.format(tick));
        }
        const last = panel === now.panels[now.panels.length - 1];
        now.x.ticks.forEach((tick) => draw(svg, 'line', { x1: X(tick), x2: X(tick), y1: base, y2: base + panel.height, class: 'grid' }));
        panel.paint(draw(svg, 'g', {}), X, Y, { left, top: base, width: inner, height: panel.height, whole: [width, height] });
        draw(svg, 'line', { x1: left, x2: width - right, y1: base + panel.height, y2: base + panel.height, class: 'axis' });
        if (last) {
          let end = -Infinity;
          now.x.ticks.forEach((tick) => {
            const text = now.xFormat(tick, now.x.step), half = text.length * 3.2;
            if (X(tick) - half < end + 6) return;
            end = X(tick) + half;
            draw(svg, 'text', { x: Math.min(X(tick), width - half), y: base + panel.height + 17, 'text-anchor': 'middle' }, text);
          });
          draw(svg, 'text', { x: left + inner / 2, y: base + panel.height + 35, 'text-anchor': 'middle' }, now.xLabel);
        }
        spots.push(base, base + panel.height);
        top += panel.height + gap;
      }
      const cursor = draw(svg, 'line', { class: 'cursor', y1: spots[0], y2: spots[spots.length - 1], visibility: 'hidden' });
      const show = (index, pageX, pageY, row) => {
        if (!now.stops.length) return;
        at = Math.min(Math.max(index, 0), now.stops.length - 1);
        const x = X(now.stops[at]);
        cursor.setAttribute('x1', x); cursor.setAttribute('x2', x); cursor.setAttribute('visibility', 'visible');
        tip.textContent = now.words(at, row);
        tip.hidden = false;
        const shape = svg.getBoundingClientRect(), scale = shape.width / width;
        pageX = shape.left + x * scale + scrollX;
        if (pageY === undefined) pageY = shape.top + spots[0] + scrollY;
        const room = document.documentElement.clientWidth - 8;
        let from = pageX + 14;
        if (from + tip.offsetWidth > room) from = Math.max(8, pageX - 14 - tip.offsetWidth);
        tip.style.left = `${from}px`;
        tip.style.top = `${Math.max(scrollY + 4, pageY - tip.offsetHeight / 2)}px`;
      };
      const hide = () => { tip.hidden = true; cursor.setAttribute('visibility', 'hidden'); };
      const move = (event) => {
        const shape = svg.getBoundingClientRect();
        const share = ((event.clientX - shape.left) * width / shape.width - left) / inner;
        const value = now.x.back(Math.min(Math.max(share, 0), 1));
        let best = 0;
        now.stops.forEach((stop, index) => { if (Math.abs(now.x.at(stop) - now.x.at(value)) < Math.abs(now.x.at(now.stops[best]) - now.x.at(value))) best = index; });
        const down = 1 - ((event.clientY - shape.top) * height / shape.height - spots[0]) / (spots[1] - spots[0]);
        show(best, 0, event.pageY, down);
      };
      svg.addEventListener('pointermove', move);
      svg.addEventListener('pointerdown', move);
      svg.addEventListener('pointerleave', hide);
      svg.addEventListener('blur', hide);
      svg.addEventListener('focus', () => { if (svg.matches(':focus-visible')) show(Math.max(at, 0)); });
      svg.addEventListener('keydown', (event) => {
        const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: now.stops.length - 1 };
        if (event.key === 'Escape') hide();
        else if (event.key in steps) { show(steps[event.key]); event.preventDefault(); }
      });
      box.querySelector('svg')?.remove();
      box.append(svg);
      foot.replaceChildren();
      if (now.foot) now.foot(foot);
      if (now.under) now.under(hole, { left, width: inner, whole: [width, height], top: spots[0], height: spots[1] - spots[0] });
      fill();
    };
    charts.push({ render, width: () => lastWidth, box });
    render();
    new ResizeObserver(() => { if (Math.abs(box.clientWidth - lastWidth) > 1 && !matchMedia('print').matches) render(); }).observe(box);
  };
  const renderAll = () => charts.forEach((one) => one.render());

  // ---- marks ----
  const line = (g, points, attributes) => {
    let path = '', open = false;
    for (const [x, y] of points) {
      if (y === null || Number.isNaN(y)) { open = false; continue; }
      path += `${open ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
      open = true;
    }
    draw(g, 'path', { d: path, fill: 'none', 'stroke-linejoin': 'round', 'stroke-linecap': 'round', ...attributes });
  };
  const band = (g, points, attributes) => {
    let run = [];
    const flush = () => {
      if (run.length > 1) {
        const up = run.map(([x, , high]) => `${x.toFixed(1)} ${high.toFixed(1)}`);
        const down = run.map(([x, low]) => `${x.toFixed(1)} ${low.toFixed(1)}`).reverse();
        draw(g, 'path', { d: `M${up.join('L')}L${down.join('L')}Z`, stroke: 'none', ...attributes });
      }
      run = [];
    };
    points.forEach((point) => (point[1] === null || point[2] === null ? flush() : run.push(point)));
    flush();
  };

  // ---- one phase ----
  const phase = (host) => {
    const { runs, pairs, sides, names } = data.phases[Number(host.dataset.phase)];
    const drawn = runs.map((run, index) => ({ ...run, index })).filter((run) => run.picture);
    const state = { op: 'ALL', series: 'response', hidden: new Set() };
    const kinds = [];
    drawn.forEach((run) => run.picture.kinds.forEach((kind) => { if (!kinds.includes(kind.op)) kinds.push(kind.op); }));
    if (kinds.length === 2) { kinds.shift(); }
    state.op = kinds[0];
    const paced = drawn.some((run) => run.paced);
    const visible = () => drawn.filter((run) => !state.hidden.has(run.index));
    const of = (run) => run.picture.kinds.find((kind) => kind.op === state.op);
    const serial = (run, kind) => (state.series === 'service' && run.paced ? kind.service : kind.response);
    const seriesName = () => (state.series === 'service' ? 'Service time' : 'Response');
    const opName = () => (state.op === 'ALL' ? 'all ops together' : state.op);
    const end = () => Math.max(...visible().map((run) => run.picture.cells * run.picture.cell_ns));
    const finest = () => visible().reduce((best, run) => (run.picture.cell_ns * 1 < best.picture.cell_ns ? run : best), visible()[0]);
    const middles = (run) => Array.from({ length: run.picture.cells }, (_, cell) => (cell + 0.5) * run.picture.cell_ns);
    const named = (run) => (drawn.length > 1 ? `${run.label}: ` : '');

    if (drawn.length) {
      const bar = add(host, 'div', { class: 'toolbar' });
      const choices = (words, values, key, name) => {
        if (values.length < 2) return;
        const group = add(bar, 'div', { class: 'controls', role: 'group', 'aria-label': words });
        add(group, 'span', {}, words);
        const buttons = values.map((value) => {
          const button = add(group, 'button', { type: 'button', 'data-choice': `${key}:${value}` }, name(value));
          button.addEventListener('click', () => { state[key] = value; paint(); renderAll(); });
          return button;
        });
        const paint = () => buttons.forEach((button, index) => {
          const on = values[index] === state[key];
          button.classList.toggle('on', on);
          button.setAttribute('aria-pressed', on);
        });
        paint();
      };
      choices('Show', kinds, 'op', (op) => (op === 'ALL' ? 'all ops' : op));
      if (paced) choices('as', ['response', 'service'], 'series', (one) => one);
      if (drawn.length > 1) {
        const group = add(bar, 'div', { class: 'controls', role: 'group', 'aria-label': 'Runs' });
        drawn.forEach((run) => {
          const button = add(group, 'button', { type: 'button', 'aria-pressed': 'true', 'data-run-toggle': run.index });
          add(button, 'span', { class: 'swatch', style: `border-color:${colour(run.index)};border-top-style:${run.index % 6 ? 'dashed' : 'solid'}` });
          button.append(run.label);
          button.addEventListener('click', () => {
            if (state.hidden.has(run.index)) state.hidden.delete(run.index);
            else if (visible().length > 1) state.hidden.add(run.index);
            button.setAttribute('aria-pressed', !state.hidden.has(run.index));
            renderAll();
          });
        });
      }
    }

    const marks = (g, X, shape, some = visible()) => some.forEach((run) => {
      if (run.cut_ns) draw(g, 'rect', { x: shape.left, y: shape.top, width: Math.max(0, X(run.cut_ns) - shape.left), height: shape.height, class: 'cut' });
      run.changes_ns.forEach((at) => draw(g, 'line', { x1: X(at), x2: X(at), y1: shape.top, y2: shape.top + shape.height, class: 'change' }));
    });
    const cellOf = (run, ns) => Math.floor(ns / run.picture.cell_ns);

    // Latency over time.
    if (drawn.length) chart(host, {
      title: 'Latency over time', wide: true, now: (width = 800) => {
        const shown = visible().filter(of), alone = shown.length === 1;
        if (!shown.length) return null;
        const all = shown.flatMap((run) => { const s = serial(run, of(run)); return [...s.p50, ...(shown.length <= 4 ? s.max : s.p99)]; }).filter((one) => one !== null);
        if (!all.length) return null;
        const y = log(Math.max(1, all.reduce((one, other) => Math.min(one, other)) * 0.85), all.reduce((one, other) => Math.max(one, other)) * 1.15, 6);
        const lead = finest(), stops = middles(lead), apart = shown.length <= 4;
        const paint = (some) => (g, X, Y, shape) => {
          if (apart) marks(g, X, shape, some); else marks(g, X, shape);
          for (const run of some) {
            const s = serial(run, of(run)), xs = middles(run), Z = (value) => (value === null ? null : Y(value)), ink = colour(run.index);
            if (apart) {
              band(g, xs.map((x, i) => [X(x), Z(s.p90[i]), Z(s.p99[i])]), { fill: ink, opacity: 0.16 });
              band(g, xs.map((x, i) => [X(x), Z(s.p50[i]), Z(s.p90[i])]), { fill: ink, opacity: 0.32 });
            }
            line(g, xs.map((x, i) => [X(x), Z(s.p99[i])]), { stroke: ink, 'stroke-width': 1, 'stroke-dasharray': apart ? '' : dash(run.index), opacity: apart ? 0.6 : 1 });
            line(g, xs.map((x, i) => [X(x), Z(s.p50[i])]), { stroke: ink, 'stroke-width': 2, 'stroke-dasharray': apart ? '' : dash(run.index) });
            if (apart) s.max.forEach((max, i) => { if (max !== null) draw(g, 'circle', { cx: X(xs[i]).toFixed(1), cy: Y(max).toFixed(1), r: 1.5, fill: ink, opacity: 0.7 }); });
          }
        };
        const panel = (some, height, title) => ({ title, height, y, format: (one) => duration(one, 2), paint: paint(some) });
        return {
          note: `${seriesName()} of ${opName()} that ended OK, by the time they were due. ${apart ? 'Line: median; bands: up to p90 and p99; dots: the longest.' : 'Thick: median; thin: p99.'}` +
            `${shown.some((run) => run.cut_ns) ? ' Shaded: warm-up, left out of the numbers.' : ''}${shown.some((run) => run.changes_ns.length) ? ' Dotted: latency changed for good.' : ''}`,
          x: time(end(), Math.floor(width / 90)), xFormat: moment, xLabel: 'time since the run began', stops,
          panels: alone || !apart ? [panel(shown, 250)] : shown.map((run) => panel([run], shown.length > 2 ? 110 : 150, run.name)),
          words: (i) => [stretch(i * lead.picture.cell_ns, lead.picture.cell_ns), ...shown.map((run) => {
            const s = serial(run, of(run)), cell = cellOf(run, stops[i]);
            const has = s.p50[cell] !== null && s.p50[cell] !== undefined;
            return named(run) + (has ? `p50 ${duration(s.p50[cell])} · p90 ${duration(s.p90[cell])} · p99 ${duration(s.p99[cell])} · max ${duration(s.max[cell])}` : 'no op');
          })].join('\n'),
          table: () => ({
            head: ['from', ...shown.flatMap((run) => ['p50', 'p90', 'p99', 'max'].map((one) => named(run) + one))],
            rows: stops.map((stop, i) => [moment(i * lead.picture.cell_ns, lead.picture.cell_ns), ...shown.flatMap((run) => {
              const s = serial(run, of(run)), cell = cellOf(run, stop);
              return ['p50', 'p90', 'p99', 'max'].map((one) => (s[one][cell] === null || s[one][cell] === undefined ? '–' : duration(s[one][cell])));
            })]),
          }),
        };
      },
    });

    // Throughput, failures, backlog.
    if (drawn.length) chart(host, {
      title: 'Throughput, failures and backlog', wide: true, now: (width = 800) => {
        const shown = visible().filter(of);
        if (!shown.length) return null;
        const rate = (run, counts) => counts.map((count) => count * 1e9 / run.picture.cell_ns);
        // The last stretch is cut off by the end of the run: its rate would be too low.
        const whole = (run, list) => list.map((value, i) => (i === list.length - 1 && list.length > 1 ? null : value));
        const rows = [
          { title: 'Answered OK per second', of: (run) => whole(run, rate(run, of(run).done)), due: (run) => run.paced && whole(run, rate(run, of(run).due)) },
          { title: 'Failed per second', of: (run) => whole(run, rate(run, of(run).failed)), optional: true },
          { title: 'Waiting: due, not started yet', of: (run) => of(run).waiting, optional: true, skip: !paced },
          { title: 'In the database', of: (run) => of(run).in_flight },
        ].filter((row) => !row.skip && (!row.optional || shown.some((run) => row.of(run).some((value) => value > 0))));
        const lead = finest(), stops = middles(lead);
        return {
          note: `${opName() === state.op ? opName() : 'All ops together'}, in stretches of ${moment(lead.picture.cell_ns, lead.picture.cell_ns)}.${paced ? ' Grey: what the schedule asked for.' : ''} Waiting and in the database: at the end of each stretch.`,
          x: time(end(), Math.floor(width / 90)), xFormat: moment, xLabel: 'time since the run began', stops,
          panels: rows.map((row, index) => ({
            title: row.title, height: index ? 62 : 120, format: short,
            y: linear(0, Math.max(...shown.flatMap((run) => row.of(run).concat(row.due ? row.due(run) || [] : []))) * 1.05 || 1, index ? 2 : 4),
            paint: (g, X, Y, shape) => {
              marks(g, X, shape);
              for (const run of shown) {
                const xs = middles(run), due = row.due && row.due(run);
                const points = (values) => values.map((value, i) => [X(xs[i]), value === null ? null : Y(value)]);
                if (due) line(g, points(due), { stroke: 'var(--soft)', 'stroke-width': 1, opacity: 0.7, 'stroke-dasharray': '3 2' });
                line(g, points(row.of(run)), { stroke: row.title.startsWith('Failed') && shown.length === 1 ? 'var(--fault)' : colour(run.index), 'stroke-width': 1.8, 'stroke-dasharray': dash(run.index) });
              }
            },
          })),
          words: (i) => [stretch(i * lead.picture.cell_ns, lead.picture.cell_ns), ...shown.flatMap((run) => {
            const cell = cellOf(run, stops[i]), kind = of(run);
            if (cell >= run.picture.cells) return [`${named(run)}over`];
            return [`${named(run)}${grouped(kind.done[cell])} OK, ${grouped(kind.due[cell])} due, ${grouped(kind.failed[cell])} failed`,
              `${grouped(kind.waiting[cell])} waiting, ${grouped(kind.in_flight[cell])} in the database`];
          })].join('\n'),
          table: () => ({
            head: ['from', ...shown.flatMap((run) => ['due', 'OK', 'failed', 'waiting', 'in the database'].map((one) => named(run) + one))],
            rows: stops.map((stop, i) => [moment(i * lead.picture.cell_ns, lead.picture.cell_ns), ...shown.flatMap((run) => {
              const cell = cellOf(run, stop), kind = of(run);
              return ['due', 'done', 'failed', 'waiting', 'in_flight'].map((one) => (cell < run.picture.cells ? grouped(kind[one][cell]) : '–'));
            })]),
          }),
        };
      },
    });

    const curveOf = (run) => { const kind = of(run); return state.series === 'service' && run.paced ? kind.curve.service : kind.curve.response; };
    const curves = () => visible().filter((run) => of(run) && of(run).curve.percent.length);
    const range = (shown) => {
      const values = shown.flatMap((run) => [curveOf(run)[0], curveOf(run)[curveOf(run).length - 1]]);
      return [Math.max(1, Math.min(...values) * 0.9), Math.max(...values) * 1.1];
    };
    const curveTable = (shown) => {
      const lead = shown.reduce((best, run) => (of(run).curve.percent.length > of(best).curve.percent.length ? run : best), shown[0]);
      return {
        head: ['percentile', ...shown.map((run) => run.label)],
        rows: of(lead).curve.percent.map((percent) => [`p${percent}`, ...shown.map((run) => {
          const index = of(run).curve.percent.indexOf(percent);
          return index < 0 ? '–' : duration(curveOf(run)[index]);
        })]),
      };
    };
    const curveWords = (shown, percent) => [`p${percent}`, ...shown.map((run) => {
      const index = of(run).curve.percent.findIndex((one) => one >= percent);
      return `${named(run)}${index < 0 ? '–' : duration(curveOf(run)[index])}`;
    })].join('\n');

    // Latency by percentile.
    if (drawn.length) chart(host, {
      title: 'Latency by percentile', now: (width = 500) => {
        const shown = curves();
        if (!shown.length) return null;
        const lead = shown.reduce((best, run) => (of(run).curve.percent.length > of(best).curve.percent.length ? run : best), shown[0]);
        const percents = of(lead).curve.percent, top = nines(percents[percents.length - 2] || 99) + 0.25;
        const place = (percent) => Math.min(nines(percent), top);
        const ticks = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999, 99.99999].filter((one) => nines(one) <= top);
        const points = state.series === 'response' ? shown.flatMap((run) => run.quantiles.filter((one) => one.op === state.op && one.low_ns !== null && one.high_ns !== null).map((one) => ({ ...one, run }))) : [];
        return {
          note: `${seriesName()} of ${opName()} that ended OK; each step to the right is ten times rarer.${points.length ? ' Bars: 95 % intervals.' : ''}`,
          x: { at: (percent) => place(percent) / top, back: (share) => 100 * (1 - 10 ** (-share * top)), ticks }, xFormat: (one) => `${one} %`, xLabel: 'share of the ops that took at most this long',
          stops: percents,
          panels: [{
            height: 250, y: log(...range(shown), 6), format: (one) => duration(one, 2), paint: (g, X, Y) => {
              for (const run of shown) line(g, of(run).curve.percent.map((percent, i) => [X(percent), Y(curveOf(run)[i])]), { stroke: colour(run.index), 'stroke-width': 2, 'stroke-dasharray': dash(run.index) });
              points.forEach((one) => {
                const x = X(Number(one.percentile)) + (one.run.index - (drawn.length - 1) / 2) * 4;
                draw(g, 'line', { x1: x, x2: x, y1: Y(one.low_ns), y2: Y(one.high_ns), stroke: colour(one.run.index), 'stroke-width': 3, opacity: 0.75 });
                draw(g, 'circle', { cx: x, cy: Y(one.ns), r: 3, fill: colour(one.run.index) });
              });
            },
          }],
          words: (i) => curveWords(shown, percents[i]), table: () => curveTable(shown),
        };
      },
    });

    // Cumulative distribution.
    if (drawn.length) chart(host, {
      title: 'Share of ops answered within a time', now: (width = 500) => {
        const shown = curves();
        if (!shown.length) return null;
        const [low, high] = range(shown), x = log(low, high, Math.floor(width / 110));
        const stops = Array.from({ length: 81 }, (_, i) => x.back(i / 80));
        const share = (run, ns) => { const index = curveOf(run).findIndex((value) => value > ns); return index < 0 ? 100 : of(run).curve.percent[Math.max(0, index - 1)] * (index > 0 ? 1 : 0); };
        return {
          note: `${seriesName()} of ${opName()} that ended OK. Further left is faster.`,
          x, xFormat: (one) => duration(one, 2), xLabel: state.series === 'service' ? 'service time' : 'response', stops,
          panels: [{
            height: 250, y: linear(0, 100, 5), format: (one) => `${one} %`, paint: (g, X, Y) => {
              for (const run of shown) line(g, of(run).curve.percent.map((percent, i) => [X(curveOf(run)[i]), Y(percent)]), { stroke: colour(run.index), 'stroke-width': 2, 'stroke-dasharray': dash(run.index) });
            },
          }],
          words: (i) => [`within ${duration(stops[i])}`, ...shown.map((run) => `${named(run)}${short(share(run, stops[i]))} % of the ops`)].join('\n'),
          table: () => ({ head: ['within', ...shown.map((run) => run.label)], rows: stops.map((ns) => [duration(ns), ...shown.map((run) => `${short(share(run, ns))} %`)]) }),
        };
      },
    });

    // Ratios of percentiles, with intervals and verdicts.
    const SIGNS = { faster: '▼', slower: '▲', equivalent: '=', inconclusive: '?', insufficient: '·', withheld: '–' };
    const COLOURS = { faster: 'var(--fine)', slower: 'var(--fault)', equivalent: 'var(--accent)', inconclusive: 'var(--soft)', insufficient: 'var(--soft)', withheld: 'var(--soft)' };
    pairs.forEach((pair) => {
      const name = `${names[pair.other]} compared with ${names[pair.baseline]}`;
      // An infinite number is null in JSON.
      const whole = (one) => one && [one.value, one.low, one.high].every((value) => Number.isFinite(value) && value > 0);
      const list = pair.ratios.filter((one) => whole(one.ratio) && one.series === 'response').concat(pair.ratios.filter((one) => whole(one.ratio) && one.series === 'service'
        && !pair.ratios.some((other) => other.op === one.op && other.series === 'response' && other.ratio)));
      if (list.length) chart(host, {
        title: `${name}: ratio of percentiles`, wide: true, now: (width = 800) => {
          const values = list.flatMap((one) => [one.ratio.low, one.ratio.high]).filter((one) => one > 0 && Number.isFinite(one)).concat([1 - pair.margin, 1 + pair.margin]);
          const y = log(Math.min(...values) * 0.95, Math.max(...values) * 1.05, 6);
          return {
            note: `Below 1: ${sides[pair.other]} took less time. Bars: 95 % intervals. Grey: ±${short(pair.margin * 100)} %, a difference that does not matter.`,
            x: { at: (i) => (i + 0.5) / list.length, back: (share) => share * list.length - 0.5, ticks: list.map((_, i) => i) },
            xFormat: (i) => (list[i] ? (width / list.length > 70 || list.every((one) => one.op === list[0].op) ? `p${list[i].percentile}` : list[i].percentile) : ''),
            xLabel: '', stops: list.map((_, i) => i),
            panels: [{
              title: ' ', height: 230, y, format: (one) => `×${Number(one.toPrecision(3))}`, paint: (g, X, Y, shape) => {
                draw(g, 'rect', { x: shape.left, width: shape.width, y: Y(1 + pair.margin), height: Y(1 - pair.margin) - Y(1 + pair.margin), class: 'cut' });
                draw(g, 'line', { x1: shape.left, x2: shape.left + shape.width, y1: Y(1), y2: Y(1), class: 'one' });
                list.forEach((one, i) => {
                  const x = X(i), fill = COLOURS[one.verdict];
                  draw(g, 'line', { x1: x, x2: x, y1: Y(one.ratio.low), y2: Y(one.ratio.high), stroke: fill, 'stroke-width': 4, 'stroke-linecap': 'round', opacity: 0.45 });
                  draw(g, 'circle', { cx: x, cy: Y(one.ratio.value), r: 4.5, fill });
                  draw(g, 'text', { x, y: Math.max(shape.top + 10, Y(one.ratio.high) - 8), 'text-anchor': 'middle', style: `fill:${fill}` }, SIGNS[one.verdict]);
                  if (!i || list[i - 1].op !== one.op || list[i - 1].series !== one.series) {
                    if (i) draw(g, 'line', { x1: X(i - 0.5), x2: X(i - 0.5), y1: shape.top, y2: shape.top + shape.height, class: 'axis' });
                    draw(g, 'text', { x: X(i - 0.5) + 4, y: shape.top - 8, class: 'panel' }, one.series === 'service' ? `${one.op} (service)` : one.op);
                  }
                });
              },
            }],
            words: (i) => { const one = list[i]; return `${one.op} ${one.series} p${one.percentile}: ${one.verdict}\n×${one.ratio.value.toFixed(3)} (${one.ratio.low.toFixed(3)} – ${one.ratio.high.toFixed(3)})\n${sides[pair.baseline]} ${one.baseline_ns === null ? '–' : duration(one.baseline_ns)}, ${sides[pair.other]} ${one.other_ns === null ? '–' : duration(one.other_ns)}`; },
            table: () => ({
              head: ['percentile', 'verdict', 'ratio', 'from', 'to', sides[pair.baseline], sides[pair.other]],
              rows: list.map((one) => [`${one.op} ${one.series} p${one.percentile}`, one.verdict, one.ratio.value.toFixed(3), one.ratio.low.toFixed(3), one.ratio.high.toFixed(3), one.baseline_ns === null ? '–' : duration(one.baseline_ns), one.other_ns === null ? '–' : duration(one.other_ns)]),
            }),
          };
        },
      });
      // The shift function.
      if (pair.shapes.length) chart(host, {
        title: `${name}: shift at every percentile`, wide: true, now: (width = 800) => {
          const shape = pair.shapes.find((one) => one.op === state.op);
          if (!shape || !shape.points.length) return null;
          const points = shape.points.filter((one) => whole(one.ratio));
          if (!points.length) return null;
          const top = nines(Math.min(points[points.length - 1].percent, 99.99999)) + 0.05;
          const values = points.flatMap((one) => [one.ratio.low, one.ratio.high]).concat([1]);
          return {
            note: `${shape.series} of ${opName()}: ${sides[pair.other]} / ${sides[pair.baseline]}, with a band for the whole curve. Below 1 is faster. Kolmogorov–Smirnov distance ${short(shape.ks.value)}; a random op of ${sides[pair.baseline]} takes longer in ${short(shape.a12.value * 100)} % of the pairs.`,
            x: { at: (percent) => Math.min(nines(percent), top) / top, back: (share) => 100 * (1 - 10 ** (-share * top)), ticks: [0, 50, 90, 99, 99.9, 99.99].filter((one) => nines(one) <= top) },
            xFormat: (one) => `${one} %`, xLabel: 'percentile', stops: points.map((one) => one.percent),
            panels: [{
              height: 200, y: log(Math.min(...values) * 0.96, Math.max(...values) * 1.04, 6), format: (one) => `×${Number(one.toPrecision(3))}`, paint: (g, X, Y, box) => {
                draw(g, 'line', { x1: box.left, x2: box.left + box.width, y1: Y(1), y2: Y(1), class: 'one' });
                band(g, points.map((one) => [X(one.percent), Y(one.ratio.low), Y(one.ratio.high)]), { fill: 'var(--accent)', opacity: 0.2 });
                line(g, points.map((one) => [X(one.percent), Y(one.ratio.value)]), { stroke: 'var(--accent)', 'stroke-width': 2 });
              },
            }],
            words: (i) => { const one = points[i]; return `p${one.percent}\n×${one.ratio.value.toFixed(3)} (${one.ratio.low.toFixed(3)} – ${one.ratio.high.toFixed(3)})\n${duration(one.baseline_ns)} → ${duration(one.other_ns)}`; },
            table: () => ({ head: ['percentile', 'ratio', 'from', 'to', sides[pair.baseline], sides[pair.other]], rows: points.map((one) => [`p${one.percent}`, one.ratio.value.toFixed(3), one.ratio.low.toFixed(3), one.ratio.high.toFixed(3), duration(one.baseline_ns), duration(one.other_ns)]) }),
          };
        },
      });
    });

    // Heat maps.
    drawn.forEach((run) => chart(host, {
      title: `Every response${drawn.length > 1 ? ` of ${run.name}` : ''}`, wide: drawn.length === 1, now: (width = 800) => {
        const { heat, cell_ns: cell, cells } = run.picture;
        if (state.hidden.has(run.index) || heat.edges.length < 2) return null;
        const rows = heat.edges.length - 1, most = heat.columns.reduce((best, column) => column.slice(1).reduce((one, other) => Math.max(one, other), best), 1);
        const low = Math.max(heat.edges[0], 1), y = log(low, heat.edges[rows], 6);
        const count = (i, row) => (heat.columns[i].length && row >= heat.columns[i][0] ? heat.columns[i][row - heat.columns[i][0] + 1] || 0 : 0);
        const dark = () => getComputedStyle(document.documentElement).colorScheme.includes('dark');
        const ramp = () => (dark() ? [[32, 52, 74], [58, 120, 168], [140, 200, 190], [255, 236, 160]] : [[214, 228, 240], [110, 165, 205], [36, 92, 150], [16, 28, 66]]);
        const shade = (share, colours) => {
          const at = share * (colours.length - 1), i = Math.min(Math.floor(at), colours.length - 2), rest = at - i;
          return colours[i].map((one, channel) => Math.round(one + (colours[i + 1][channel] - one) * rest));
        };
        return {
          note: `All kinds together, by the time they were due; the darker${dark() ? ' (here: the brighter)' : ''}, the more ops (by powers). A stall is a slanted streak: each later op waits a little less.`,
          x: time(cells * cell, Math.floor(width / 90)), xFormat: moment, xLabel: 'time since the run began', stops: middles(run),
          panels: [{ height: 230, y, format: (one) => duration(one, 2), paint: (g, X, Y, shape) => { if (run.cut_ns) draw(g, 'rect', { x: shape.left, y: shape.top, width: X(run.cut_ns) - shape.left, height: shape.height, class: 'cut' }); } }],
          under: (hole, shape) => {
            const canvas = add(hole, 'canvas', { width: cells, height: rows * 4, 'aria-hidden': 'true' });
            const [wide, high] = shape.whole;
            canvas.style.cssText = `position:absolute;image-rendering:pixelated;left:${shape.left / wide * 100}%;width:${shape.width / wide * 100}%;top:${shape.top / high * 100}%;height:${shape.height / high * 100}%`;
            const context = canvas.getContext('2d'), colours = ramp();
            const place = (ns) => (1 - y.at(Math.max(ns, low))) * rows * 4;
            for (let i = 0; i < cells; i++) for (let row = 0; row < rows; row++) {
              const ops = count(i, row);
              if (!ops) continue;
              context.fillStyle = `rgb(${shade(Math.log(ops + 1) / Math.log(most + 1), colours).join(',')})`;
              const from = place(heat.edges[row + 1]), to = place(heat.edges[row]);
              context.fillRect(i, from, 1, Math.max(1, to - from));
            }
          },
          foot: (foot) => {
            const scale = add(foot, 'div', { class: 'scale' });
            add(scale, 'span', {}, '1 op');
            add(scale, 'i', { style: `background:linear-gradient(90deg,${ramp().map((one) => `rgb(${one.join(',')})`).join(',')})` });
            add(scale, 'span', {}, `${grouped(most)} ops`);
          },
          words: (i, share) => {
            const total = heat.columns[i].slice(1).reduce((one, other) => one + other, 0);
            const words = [stretch(i * cell, cell), `${grouped(total)} ops that ended OK`];
            if (share !== undefined && share >= 0 && share <= 1) {
              const ns = y.back(share), row = heat.edges.findIndex((edge) => edge > ns) - 1;
              if (row >= 0) words.push(`${grouped(count(i, row))} of them took ${duration(heat.edges[row])} – ${duration(heat.edges[row + 1])}`);
            }
            return words.join('\n');
          },
          table: () => ({
            head: ['response', 'ops'], rows: Array.from({ length: rows }, (_, row) => [`${duration(heat.edges[row])} – ${duration(heat.edges[row + 1])}`,
              grouped(heat.columns.reduce((sum, _, i) => sum + count(i, row), 0))]),
          }),
        };
      },
    }));

    // Groups: by key, size, session …
    runs.map((run, index) => ({ ...run, index })).filter((run) => run.groups && run.groups.groups.length).forEach((run) => chart(host, {
      title: `By ${run.groups.by}${runs.length > 1 ? `: ${run.name}` : ''}`, wide: true, now: () => {
        const list = run.groups.groups, known = list.flatMap(([, , p50, p99]) => [p50, p99]).filter((one) => one !== null);
        if (!known.length) return null;
        return {
          note: `${run.groups.about}. Dot: median response, line up to p99.${run.groups.left_out ? ` ${grouped(run.groups.left_out)} more groups are in the tables only.` : ''}`,
          x: { at: (i) => (i + 0.5) / list.length, back: (share) => share * list.length - 0.5, ticks: list.map((_, i) => i) },
          xFormat: (i) => (list[i] ? (list[i][0].length > 14 ? `${list[i][0].slice(0, 13)}…` : list[i][0]) : ''), xLabel: run.groups.by, stops: list.map((_, i) => i),
          panels: [{
            height: 210, y: log(Math.max(1, Math.min(...known) * 0.85), Math.max(...known) * 1.15, 6), format: (one) => duration(one, 2), paint: (g, X, Y) => list.forEach(([, , p50, p99], i) => {
              if (p50 === null) return;
              if (p99 !== null) draw(g, 'line', { x1: X(i), x2: X(i), y1: Y(p50), y2: Y(p99), stroke: colour(run.index), 'stroke-width': 4, opacity: 0.35, 'stroke-linecap': 'round' });
              draw(g, 'circle', { cx: X(i), cy: Y(p50), r: 4, fill: colour(run.index) });
            }),
          }],
          words: (i) => { const [name, ops, p50, p99] = list[i]; return `${name}\n${grouped(ops)} ops · p50 ${p50 === null ? '–' : duration(p50)} · p99 ${p99 === null ? '–' : duration(p99)}`; },
          table: () => ({ head: [run.groups.by, 'ops', 'p50', 'p99'], rows: list.map(([name, ops, p50, p99]) => [name, grouped(ops), p50 === null ? '–' : duration(p50), p99 === null ? '–' : duration(p99)]) }),
        };
      },
    }));
  };

  // ---- the page ----
  document.querySelectorAll('.key').forEach((key) => { key.style.background = colour(Number(key.dataset.run)); });
  const theme = document.getElementById('theme'), root = document.documentElement;
  const themes = ['system', 'light', 'dark'];
  const stored = () => { try { return localStorage.getItem('ycsb-trace-theme'); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem('ycsb-trace-theme', value); } catch { /* a page from a file may not store */ } };
  const apply = (value) => {
    if (value === 'system') root.removeAttribute('data-theme'); else root.dataset.theme = value;
    theme.textContent = `Theme: ${value}`;
  };
  let chosen = themes.includes(stored()) ? stored() : 'system';
  apply(chosen);
  theme.hidden = false;
  theme.addEventListener('click', () => {
    chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
    apply(chosen); store(chosen); renderAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', renderAll);
  document.querySelectorAll('.charts').forEach(phase);
  addEventListener('beforeprint', () => {
    document.querySelectorAll('details.numbers').forEach((one) => { one.open = true; });
    root.dataset.theme = 'light'; renderAll();
  });
  addEventListener('afterprint', () => { apply(chosen); renderAll(); });
})();
