/** docs/configuration.md has a row for each field that there is, and for no other. */
import { readFileSync } from 'node:fs';
import type { DescField, DescMessage } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { INERT_FIELDS } from './config-warnings.ts';
import { ModelConfigSchema } from './gen/model_config_pb.ts';

const page = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');
const rows = new Map(
  [...page.matchAll(/^\| `([a-z0-9_.]+)` \| (.*?) \|/gm)].map(([, field = '', does = '']) => [field, does]),
);

/** Messages that are in several places, whose fields have one row each, and those that are told of in one row. */
const SHARED: Readonly<Record<string, string>> = { 'inference.ModelQueuePolicy': '' };
const IN_ONE_ROW: readonly string[] = [
  'inference.ModelTensorReshape',
  'inference.ModelOptimizationPolicy.Cuda',
  'inference.ModelOptimizationPolicy.ExecutionAccelerators.Accelerator',
  'inference.ModelOptimizationPolicy.PinnedMemoryBuffer',
  'inference.ModelRateLimiter.Resource',
  'inference.ModelInstanceGroup.SecondaryDevice',
  'inference.ModelRepositoryAgents.Agent',
];

function fieldPaths(message: DescMessage, path: string): string[] {
  const at = SHARED[message.typeName] ?? path;
  return message.fields.flatMap((field: DescField) => {
    const inner = at === '' ? field.name : `${at}.${field.name}`;
    const isEnd = field.message === undefined || IN_ONE_ROW.includes(field.message.typeName);
    return [inner, ...(isEnd ? [] : fieldPaths(field.message, inner))];
  });
}

test('every field has a row, and every row a field', () => {
  expect([...rows.keys()].sort()).toEqual([...new Set(fieldPaths(ModelConfigSchema, ''))].sort());
});

test('fields of which a check warns are said to have no effect', () => {
  for (const field of Object.keys(INERT_FIELDS))
    expect([field, rows.get(field)]).toEqual([field, expect.stringMatching(/^none/)]);
});
