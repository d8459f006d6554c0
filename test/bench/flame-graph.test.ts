import { describe, expect, test } from 'vitest';
import { type CpuProfile, flameGraph, hottest, profileTree } from './flame-graph.mjs';

const node = (id: number, functionName: string, children: readonly number[] = [], url = 'file:///a/b/c/d.js') => ({
  id,
  callFrame: { functionName, url, lineNumber: id },
  children,
});
const profile: CpuProfile = {
  nodes: [
    node(1, '(root)', [2, 3, 4], ''),
    node(2, 'work<T>', [5]),
    node(3, '(idle)', [], ''),
    node(4, ''),
    node(5, 'leaf'),
  ],
  samples: [2, 5, 5, 3, 4],
  timeDeltas: [1000, 2000, 3000, 50_000, 500],
};
const tree = profileTree(profile);

describe('profileTree', () => {
  test('own and total times, without what is idle', () => {
    expect(tree).toMatchObject({ name: '(root)', total: 6500, self: 0 });
    expect(tree.children.map(({ name, total, self }) => [name, total, self])).toEqual([
      ['work<T>', 6000, 1000],
      ['(anonymous)', 500, 500],
    ]);
  });

  test('hottest by own time', () => {
    expect(hottest(tree, 2).map(({ name, self }) => [name, self])).toEqual([
      ['leaf', 5000],
      ['work<T>', 1000],
    ]);
  });
});

test('the graph is one SVG that asks for nothing, with names escaped', () => {
  const svg = flameGraph('a & b', tree);
  expect(svg).toContain('a &amp; b');
  expect(svg).toContain('work&lt;T&gt;');
  expect(svg.match(/<rect /g)).toHaveLength(1 + 4);
  expect(svg.replace('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|<script|href/);
});
