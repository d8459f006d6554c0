/** A CPU profile of V8 as a flame graph: one SVG file that needs nothing else. Nothing here measures. */

const WIDTH = 1400;
const ROW = 17;
const CHARACTER = 6.2;
/** Narrower frames are left out. */
const WIDTH_MIN = 0.4;
const TOP = 44;
/** Not work of the thread. */
const IDLE = ['(idle)', '(program)'];

const escaped = (text) =>
  text.replace(/[&<>"]/g, (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[character]);

/**
 * The tree of a CPU profile: `{ name, place, self, total, children }`, times in microseconds, without what is idle.
 * Children of one name and place are one.
 *
 * @param {{ nodes: object[], samples: number[], timeDeltas: number[] }} profile
 */
export function profileTree({ nodes, samples, timeDeltas }) {
  const selfOf = new Map();
  for (const [index, id] of samples.entries()) selfOf.set(id, (selfOf.get(id) ?? 0) + (timeDeltas[index] ?? 0));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const merge = (ids) => {
    const frames = new Map();
    for (const id of ids) {
      const { callFrame, children = [] } = byId.get(id);
      const { functionName, url, lineNumber } = callFrame;
      if (IDLE.includes(functionName)) continue;
      const name = functionName === '' ? '(anonymous)' : functionName;
      const place = url === '' ? '' : `${url.split('/').slice(-4).join('/')}:${lineNumber + 1}`;
      const key = `${name} ${place}`;
      const frame = frames.get(key) ?? { name, place, self: 0, ids: [] };
      frame.self += selfOf.get(id) ?? 0;
      frame.ids.push(...children);
      frames.set(key, frame);
    }
    return [...frames.values()]
      .map(({ ids: below, ...frame }) => {
        const children = merge(below);
        return { ...frame, children, total: children.reduce((sum, child) => sum + child.total, frame.self) };
      })
      .filter(({ total }) => total > 0)
      .toSorted((a, b) => b.total - a.total);
  };
  const [root] = merge([nodes[0].id]);
  return root ?? { name: '(root)', place: '', self: 0, total: 0, children: [] };
}

/** The functions by their own time: `{ name, place, self }`. */
export function hottest(tree, count) {
  const own = new Map();
  const visit = ({ name, place, self, children }) => {
    const key = `${name} ${place}`;
    own.set(key, { name, place, self: (own.get(key)?.self ?? 0) + self });
    for (const child of children) visit(child);
  };
  visit(tree);
  return [...own.values()].toSorted((a, b) => b.self - a.self).slice(0, count);
}

/** Files of a package have a colour, so that ours, node's and dependencies' are told apart. */
function colour(place) {
  if (place.includes('node_modules') || place.includes('.pnpm')) return '#8fb7d8';
  if (place.startsWith('node:') || place === '') return '#c9c3b5';
  return '#e8935a';
}

/** @param {string} title above the graph */
export function flameGraph(title, tree) {
  const frames = [];
  let depthMax = 0;
  const place = (frame, x, depth) => {
    const width = (frame.total / tree.total) * WIDTH;
    if (width < WIDTH_MIN) return;
    depthMax = Math.max(depthMax, depth);
    const share = ((100 * frame.total) / tree.total).toFixed(1);
    const tip = escaped(`${frame.name} ${frame.place}: ${share} %, own ${(frame.self / 1000).toFixed(1)} ms`);
    const letters = Math.floor((width - 4) / CHARACTER);
    const label = letters < 3 ? '' : escaped(frame.name.slice(0, letters));
    const y = TOP + depth * ROW;
    frames.push(
      `<g><title>${tip}</title><rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 1}" ` +
        `fill="${colour(frame.place)}"/><text x="${(x + 2).toFixed(1)}" y="${y + 12}">${label}</text></g>`,
    );
    let at = x;
    for (const child of frame.children) {
      place(child, at, depth + 1);
      at += (child.total / tree.total) * WIDTH;
    }
  };
  if (tree.total > 0) place(tree, 0, 0);
  const height = TOP + (depthMax + 2) * ROW;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="monospace" font-size="10">
<rect width="100%" height="100%" fill="#fdfcf8"/>
<text x="4" y="16" font-size="13">${escaped(title)}</text>
<text x="4" y="34">${(tree.total / 1000).toFixed(0)} ms busy; orange: own code, blue: dependencies, grey: Node and native. A frame's tip has its place.</text>
${frames.join('\n')}
</svg>
`;
}
