import { describe, expect, it } from 'vitest';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { encodeGenerateResponse } from './generate-response.ts';
import type { InferResponse } from './infer.ts';
import { type TensorValues, tensorFromValues } from './tensor-values.ts';

function text(more: Partial<InferResponse>): string {
  return encodeGenerateResponse({
    modelName: 'm',
    modelVersion: '1',
    id: '',
    parameters: {},
    outputs: [],
    ...more,
  }).toString();
}

const tensor = (name: string, datatype: Datatype, values: TensorValues & { length: number }) =>
  tensorFromValues(name, datatype, [values.length], values);

describe('a generate answer', () => {
  it('has all members in the order of their names', () => {
    const outputs = [tensor('text_output', 'BYTES', ['hello']), tensor('O', 'INT32', [0])];
    const parameters = { zone: 'a', big: 9007199254740993n, ratio: 2, done: true };
    expect(text({ id: 'q"', parameters, outputs })).toBe(
      '{"O":0,"big":9007199254740993,"done":true,"id":"q\\"","model_name":"m","model_version":"1",' +
        '"ratio":2.0,"text_output":"hello","zone":"a"}',
    );
  });

  it('is model and version where there is nothing else', () => {
    expect(text({})).toBe('{"model_name":"m","model_version":"1"}');
  });

  it.each<[Datatype, TensorValues & { length: number }, string]>([
    ['INT32', [5], '5'],
    ['INT32', [1, 2, 3], '[1,2,3]'],
    ['INT32', [], '[]'],
    ['BOOL', [true], 'true'],
    ['BOOL', [true, false], '[true,false]'],
    ['FP32', [1], '1.0'],
    ['UINT64', [18446744073709551615n], '18446744073709551615'],
    ['BYTES', ['a\n"b"'], '"a\\n\\"b\\""'],
    ['BYTES', ['a', ''], '["a",""]'],
    ['BYTES', [], '[]'],
  ])('has %s %o as %s', (datatype, values, expected) => {
    expect(text({ outputs: [tensor('Y', datatype, values)] })).toBe(
      `{"Y":${expected},"model_name":"m","model_version":"1"}`,
    );
  });

  it('has a tensor of any rank flat', () => {
    const outputs = [
      tensorFromValues('A', 'INT8', [2, 2], [1, 2, 3, 4]),
      tensorFromValues('B', 'INT8', [1, 1], [5]),
      tensorFromValues('C', 'INT8', [], [6]),
    ];
    expect(text({ outputs })).toBe('{"A":[1,2,3,4],"B":5,"C":6,"model_name":"m","model_version":"1"}');
  });

  it('gives what the server says before a parameter, and that before a tensor, of the same name', () => {
    const outputs = [tensor('model_name', 'INT8', [1]), tensor('p', 'INT8', [2])];
    expect(text({ parameters: { id: 'x', model_version: 'y', p: 'z' }, outputs, id: 'i' })).toBe(
      '{"id":"i","model_name":"m","model_version":"1","p":"z"}',
    );
  });

  it('has no line of its own in it, so that it can be an event', () => {
    const all = String.fromCharCode(...Array.from({ length: 128 }, (_, code) => code));
    const answer = text({ parameters: { [all]: all }, outputs: [tensor('Y', 'BYTES', [all])] });
    expect(answer).not.toMatch(/[\r\n]/);
    expect(JSON.parse(answer)).toMatchObject({ Y: all, [all]: all });
  });

  it.each<Datatype>(['FP16', 'BF16'])('cannot have %s', (datatype) => {
    expect(() => text({ outputs: [{ name: 'Y', datatype, shape: [1], data: new Uint8Array(2) }] })).toThrow(
      NereidError,
    );
  });
});
