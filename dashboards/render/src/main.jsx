// Draws one dashboard with Grafana's own components. What lives in Grafana's core only (state timelines,
// transformations) is drawn here in a simpler way; variables choose everything unless the address says otherwise.
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import { createRoot } from 'react-dom/client';
import { useEffect, useState } from 'react';
import { createTheme, dateTime, FieldColorModeId, FieldType, getDisplayProcessor, ThemeContext, toDataFrame } from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueTextMode, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const address = new URLSearchParams(location.search);
const UNIT = { width: 58, height: 36 };
const GAP = 8;
const end = Number(address.get('to'));
const begin = Number(address.get('from'));
const step = Math.max(5, Math.round((end - begin) / 300));
const theme = createTheme({ colors: { mode: address.get('theme') ?? 'light' } });
const range = { from: dateTime(begin * 1000), to: dateTime(end * 1000), raw: { from: dateTime(begin * 1000), to: dateTime(end * 1000) } };

const escaped = (value) => value.replace(/[\\^$*+?.()|[\]{}/]/g, '\\$&'); // as Grafana's format regex
const chosen = (name) => (address.has(`var-${name}`) ? escaped(address.get(`var-${name}`)) : '.*');
const substituted = (query) =>
  query
    .replaceAll('$__rate_interval', '1m')
    .replaceAll('$__interval', `${step}s`)
    .replaceAll('$__range', `${end - begin}s`)
    .replace(/\$\{(\w+):regex\}/g, (_, name) => chosen(name));

async function ask(path, parameters) {
  const answer = await fetch(`/api/v1/${path}?${new URLSearchParams(parameters)}`);
  const body = await answer.json();
  if (body.status !== 'success') throw new Error(body.error);
  return body.data.result;
}

const legend = (target, labels) =>
  target.legendFormat === '__auto'
    ? Object.entries(labels).filter(([name]) => name !== '__name__').map(([name, value]) => `${name}=${value}`).join(', ')
    : target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '');

function dressed(field, panel) {
  const { defaults, overrides } = panel.fieldConfig;
  const config = { ...defaults, custom: { ...defaults.custom }, ...field.config };
  for (const override of overrides.filter((one) => one.matcher.options === field.name)) {
    for (const { id, value } of override.properties) {
      if (id.startsWith('custom.')) config.custom[id.slice(7)] = value;
      else config[id] = value;
    }
  }
  config.links = [];
  const whole = { ...field, config };
  whole.display = getDisplayProcessor({ field: whole, theme, timeZone: 'utc' });
  return whole;
}

async function series(panel) {
  const frames = [];
  for (const target of panel.targets) {
    const found = await ask('query_range', { query: substituted(target.expr), start: begin, end, step });
    for (const { metric, values } of found) {
      const name = legend(target, metric);
      const at = new Map(values.map(([time, value]) => [Math.round(time), Number(value)]));
      const times = [];
      for (let time = begin; time <= end; time += step) times.push(time);
      const frame = toDataFrame({
        refId: target.refId,
        fields: [
          { name: 'Time', type: FieldType.time, values: times.map((time) => time * 1000) },
          { name, type: FieldType.number, labels: metric, values: times.map((time) => at.get(time) ?? null), config: { displayNameFromDS: name } },
        ],
      });
      frames.push(frame);
    }
  }
  return frames.map((frame, number) => ({
    ...frame,
    fields: frame.fields.map((field) => {
      if (field.type === FieldType.time) return dressed(field, { fieldConfig: { defaults: {}, overrides: [] } });
      const shown = dressed(field, panel);
      shown.state = { seriesIndex: number };
      if (panel.type === 'timeseries') shown.config.color = { mode: FieldColorModeId.PaletteClassic };
      shown.display = getDisplayProcessor({ field: shown, theme, timeZone: 'utc' });
      return shown;
    }),
  }));
}

async function rows(panel) {
  const merged = new Map();
  const names = [];
  for (const target of panel.targets) {
    const column = panel.targets.length > 1 ? `Value #${target.refId}` : 'Value';
    names.push(column);
    for (const { metric, value } of await ask('query', { query: substituted(target.expr), time: end })) {
      const { __name__, ...labels } = metric;
      const key = JSON.stringify(Object.entries(labels).sort());
      if (!merged.has(key)) merged.set(key, { ...labels });
      merged.get(key)[column] = Number(value[1]);
    }
  }
  const order = Object.entries(panel.transformations.find((one) => one.id === 'organize').options.indexByName);
  const all = [...merged.values()];
  for (const { displayName, desc } of panel.options.sortBy.toReversed()) { // as Grafana: what is not there is the least
    const named = ({ properties }) => properties.some(({ id, value }) => id === 'displayName' && value === displayName);
    const column = panel.fieldConfig.overrides.find(named)?.matcher.options;
    const value = (row) => row[column] ?? -Infinity;
    all.sort((a, b) => (desc ? -1 : 1) * (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0));
  }
  const columns = order.sort((a, b) => a[1] - b[1]).map(([name]) => name).filter((name) => all.some((row) => name in row)); // as Grafana: of labels that are there
  return toDataFrame({
    fields: columns.map((name) => ({
      name,
      type: names.includes(name) ? FieldType.number : FieldType.string,
      values: all.map((row) => row[name] ?? (names.includes(name) ? null : '')),
    })),
  });
}

function Stat({ panel, width, height }) {
  const [found, setFound] = useState();
  useEffect(() => {
    const [target] = panel.targets;
    ask('query', { query: substituted(target.expr), time: end }).then(setFound);
  }, []);
  if (!found) return <Waiting />;
  const [first] = found;
  if (!first) return <NoData panel={panel} />;
  const name = legend(panel.targets[0], first.metric);
  const field = dressed({ name, type: FieldType.number, values: [Number(first.value[1])], config: {} }, panel);
  const value = panel.options.textMode === 'name' ? { text: name, numeric: 0, color: theme.colors.text.primary } : field.display(Number(first.value[1]));
  return (
    <BigValue value={{ ...value, title: '' }} width={width} height={height} theme={theme} colorMode={BigValueColorMode.Value}
      graphMode={BigValueGraphMode.None} textMode={BigValueTextMode.Value} />
  );
}

function Graph({ panel, width, height }) {
  const [frames, setFrames] = useState();
  useEffect(() => void series(panel).then(setFrames), []);
  if (!frames) return <Waiting />;
  if (!frames.length) return <NoData panel={panel} />;
  return (
    <TimeSeries frames={frames} structureRev={1} timeRange={range} timeZone="utc" width={width} height={height}
      legend={{ ...panel.options.legend, calcs: [] }} />
  );
}

function Timeline({ panel, width, height }) {
  const [frames, setFrames] = useState();
  useEffect(() => void series(panel).then(setFrames), []);
  if (!frames) return <Waiting />;
  if (!frames.length) return <NoData panel={panel} />;
  const named = 260;
  const each = Math.min(34, (height - 24) / frames.length);
  return (
    <div style={{ width, height, overflow: 'hidden', fontSize: 12 }}>
      {frames.map((frame, number) => {
        const [time, value] = frame.fields;
        const shares = [];
        value.values.forEach((one, i) => {
          const last = shares.at(-1);
          if (last && last.one === one) last.count += 1;
          else shares.push({ one, count: 1 });
        });
        return (
          <div key={number} style={{ display: 'flex', height: each, alignItems: 'center' }}>
            <div style={{ width: named, overflow: 'hidden', whiteSpace: 'nowrap', textOverflow: 'ellipsis', paddingRight: 8, textAlign: 'right' }}>{value.name}</div>
            <div style={{ display: 'flex', width: width - named, height: each * 0.8 }}>
              {shares.map((share, i) => {
                const shown = share.one === null ? { text: '', color: 'transparent' } : value.display(share.one);
                return (
                  <div key={i} style={{ width: `${(100 * share.count) / time.values.length}%`, background: shown.color, color: '#fff', overflow: 'hidden', paddingLeft: share.count > 8 ? 6 : 0, lineHeight: `${each * 0.8}px` }}>
                    {share.count > 8 ? shown.text : ''}
                  </div>
                );
              })}
            </div>
          </div>
        );
      })}
    </div>
  );
}

function Table({ panel, width, height }) {
  const [frame, setFrame] = useState();
  useEffect(() => void rows(panel).then(setFrame), []);
  if (!frame) return <Waiting />;
  if (!frame.length) return <NoData panel={panel} />;
  const shown = { ...frame, fields: frame.fields.map((field) => dressed(field, panel)).map((field) => ({ ...field, state: { displayName: field.config.displayName } })) };
  return <TableNG data={shown} width={width} height={height} initialSortBy={[]} structureRev={1} cellHeight="sm" showTypeIcons={false} noHeader={false} />;
}

const Waiting = () => <div className="waiting" />;
const NoData = ({ panel }) => (
  <div style={{ textAlign: 'center', paddingTop: 16, color: theme.colors.text.secondary }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>
);
const KINDS = { stat: Stat, timeseries: Graph, 'state-timeline': Timeline, table: Table };

function place({ x, y, w, h }) {
  return { position: 'absolute', left: x * UNIT.width, top: 48 + y * UNIT.height, width: w * UNIT.width - GAP, height: h * UNIT.height - GAP };
}

function Board({ board }) {
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <div style={{ position: 'relative', width: 24 * UNIT.width, height: 48 + bottom * UNIT.height, margin: 12 }} id="board">
      <h3 style={{ margin: 0 }}>{board.title}</h3>
      {board.panels.map((panel) => {
        const spot = place(panel.gridPos);
        if (panel.type === 'row') return <div key={panel.id} style={{ ...spot, fontWeight: 500, paddingTop: 6 }}>{panel.title}</div>;
        const Kind = KINDS[panel.type];
        return (
          <div key={panel.id} style={spot}>
            <PanelChrome title={panel.title} description={panel.description} width={spot.width} height={spot.height}>
              {(width, height) => <Kind panel={panel} width={width} height={height} />}
            </PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

// widths of axes are measured in Grafana's font: with another one they are cut off
await Promise.all(['400 12px Inter', '500 12px Inter'].map((font) => document.fonts.load(font)));
const board = await (await fetch(`/dashboards/${address.get('dashboard')}.json`)).json();
document.body.style.background = theme.colors.background.canvas;
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div style={{ color: theme.colors.text.primary, fontFamily: theme.typography.fontFamily }}>
      <Board board={board} />
    </div>
  </ThemeContext.Provider>
);
