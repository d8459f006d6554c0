import type { VersionRecord } from '@nereid/config';
import { NO_HOLDER, type VersionState } from '@nereid/protocol';
import { type ProcessRecord, timing } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { gatewayFixture, identity, modelRecord, readyVersion, SIMPLE } from './gateway-fixture.ts';

const version = (name: string, state: VersionState, reason = ''): VersionRecord => ({ version: name, state, reason });

const MODELS = [
  modelRecord(SIMPLE),
  modelRecord(identity('three', 'FP32'), [readyVersion('1'), version('2', 'LOADING'), readyVersion('10')]),
  modelRecord(identity('gone', 'FP32'), [version('1', 'UNAVAILABLE', 'unloaded')]),
  modelRecord(identity('empty', 'FP32'), []),
];

describe('the version of a lookup', () => {
  it.each([
    ['simple', '', '1'],
    ['simple', '1', '1'],
    ['simple', '0001', '1'],
    ['three', '', '10'],
    ['three', '1', '1'],
  ])('%s version "%s" is %s', async (name, asked, expected) => {
    const { gateway } = await gatewayFixture({ models: MODELS });
    expect(gateway.model(name, asked)).toMatchObject({ ok: true, version: expected });
    expect(gateway.modelReady(name, asked)).toBe(true);
  });

  it.each([
    ['missing', '', 'NOT_FOUND', "Request for unknown model: 'missing' is not found"],
    ['missing', '1', 'NOT_FOUND', "Request for unknown model: 'missing' is not found"],
    ['simple', '7', 'NOT_FOUND', "Request for unknown model: 'simple' version 7 is not found"],
    ['simple', '0', 'NOT_FOUND', "Request for unknown model: 'simple' version 0 is not found"],
    ['simple', '007', 'NOT_FOUND', "Request for unknown model: 'simple' version 7 is not found"],
    ['gone', '', 'NOT_FOUND', "Request for unknown model: 'gone' has no available versions"],
    ['gone', '1', 'UNAVAILABLE', "Request for unknown model: 'gone' version 1 is not at ready state"],
    ['three', '2', 'UNAVAILABLE', "Request for unknown model: 'three' version 2 is not at ready state"],
    ['empty', '', 'NOT_FOUND', "Request for unknown model: 'empty' has no available versions"],
    [
      'simple',
      '9223372036854775808',
      'INVALID_ARG',
      "failed to get model version from specified version string '9223372036854775808' (details: stol), " +
        'version should be an integral value > 0',
    ],
    [
      'simple',
      'one',
      'INVALID_ARG',
      "failed to get model version from specified version string 'one' (details: stol), " +
        'version should be an integral value > 0',
    ],
  ])('%s version "%s" is an error: %s', async (name, asked, code, message) => {
    const { gateway } = await gatewayFixture({ models: MODELS });
    expect(gateway.model(name, asked)).toEqual({ ok: false, error: { code, message } });
    expect(gateway.modelReady(name, asked)).toBe(false);
  });
});

describe('a model without a READY version, no version asked for', () => {
  const gone = "Request for unknown model: 'other' has no available versions";
  const notReady = "Request for unknown model: 'other' version 2 is not at ready state";
  const held = readyVersion('1');
  it.each<readonly [string, readonly VersionRecord[], string, string]>([
    [
      'waits for a worker',
      [version('1', 'UNAVAILABLE', NO_HOLDER), version('2', 'UNAVAILABLE', NO_HOLDER)],
      gone,
      notReady,
    ],
    ['is loading', [version('1', 'UNAVAILABLE', 'unloaded'), version('2', 'LOADING')], gone, notReady],
    ['failed to load', [version('2', 'UNAVAILABLE', 'Internal: no')], gone, gone],
    ['was unloaded', [version('2', 'UNAVAILABLE', 'unloaded')], gone, gone],
    ['is being unloaded', [version('2', 'UNLOADING')], gone, gone],
    ['has another that is READY', [held, version('2', 'LOADING')], '', ''],
  ])('%s', async (_name, versions, inOneProcess, apart) => {
    const models = [modelRecord(identity('other', 'FP32'), versions)];
    for (const [expected, more] of [
      [inOneProcess, {}],
      [apart, { timing: timing() }],
    ] as const) {
      const { gateway } = await gatewayFixture({ models, ...more });
      const found = gateway.model('other');
      expect(found.ok ? '' : found.error.message).toBe(expected);
      if (!found.ok) expect(found.error.code).toBe(expected === gone ? 'NOT_FOUND' : 'UNAVAILABLE');
    }
  });
});

describe('readiness', () => {
  it.each<readonly [string, readonly VersionRecord[], boolean]>([
    ['every version READY', [readyVersion('1'), readyVersion('2')], true],
    ['one unloaded on purpose', [version('1', 'UNAVAILABLE', 'unloaded'), readyVersion('2')], true],
    ['all unloaded', [version('1', 'UNAVAILABLE', 'unloaded')], true],
    ['one loading', [readyVersion('1'), version('2', 'LOADING')], false],
    ['one failed', [version('1', 'UNAVAILABLE', 'Internal: no'), readyVersion('2')], false],
    ['no version folder', [], false],
  ])('with strict readiness: %s', async (_name, versions, ready) => {
    const models = [modelRecord(SIMPLE), modelRecord(identity('other', 'FP32'), versions)];
    const strict = await gatewayFixture({ models });
    expect(strict.gateway.ready()).toBe(ready);
    const lenient = await gatewayFixture({ models, strictReadiness: false });
    expect(lenient.gateway.ready()).toBe(true);
  });

  /** An ensemble over the model "other", which is FP32. */
  const ensemble = (datatype: string) => `
    name: "e" platform: "ensemble"
    input [ { name: "INPUT" data_type: TYPE_${datatype} dims: [ -1 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_${datatype} dims: [ -1 ] } ]
    ensemble_scheduling { step [ {
      model_name: "other" model_version: -1
      input_map { key: "INPUT" value: "INPUT" } output_map { key: "OUTPUT" value: "OUTPUT" }
    } ] }`;

  it.each<readonly [string, string, VersionRecord, boolean]>([
    ['its model is unloaded', 'FP32', version('1', 'UNAVAILABLE', 'unloaded'), true],
    ['its model has other tensors', 'INT32', readyVersion('1'), true],
    ['its model is there, so that it is about to be served', 'FP32', readyVersion('1'), false],
  ])('of an ensemble that waits for its model: %s', async (_name, datatype, state, ready) => {
    const waiting = modelRecord(ensemble(datatype), [version('1', 'UNAVAILABLE', 'not yet')]);
    const models = [modelRecord(identity('other', 'FP32'), [state]), { ...waiting, awaitsModels: true }];
    const { gateway } = await gatewayFixture({ models });
    expect(gateway.ready()).toBe(ready);
  });

  it('needs an owner for each model that serves', async () => {
    const { gateway, directory } = await gatewayFixture();
    await directory.release('simple', 'co-1');
    expect([gateway.ready(), gateway.modelReady('simple', '')]).toEqual([false, false]);
    await directory.acquire('simple', 'co-1');
    expect([gateway.ready(), gateway.modelReady('simple', '')]).toEqual([true, true]);
  });

  it.each<readonly [string, Partial<ProcessRecord> | undefined, boolean]>([
    ['a coordinator that lives', {}, true],
    ['one that takes its models yet', { starting: true }, false],
    ['one that is stopping', { draining: true }, false],
    ['none', undefined, false],
  ])('needs a coordinator with roles apart: %s', async (_name, state, ready) => {
    for (const [models, strictReadiness] of [
      [undefined, true],
      [[], true],
      [[], false],
    ] as const) {
      const { gateway, directory } = await gatewayFixture({
        timing: timing(),
        models: models ?? MODELS.slice(0, 1),
        strictReadiness,
      });
      await directory.leave('co-1');
      if (state !== undefined) await directory.register({ id: 'co-2', role: 'coordinator', draining: false, ...state });
      expect(gateway.ready()).toBe(ready || !strictReadiness);
    }
  });

  it('follows what is published and withdrawn', async () => {
    const { gateway, directory } = await gatewayFixture();
    await directory.publish('simple', modelRecord(SIMPLE, [version('1', 'UNLOADING')]));
    expect([gateway.ready(), gateway.modelReady('simple', '1')]).toEqual([false, false]);
    await directory.withdraw('simple');
    expect([gateway.ready(), gateway.modelReady('simple', '1')]).toEqual([true, false]);
  });

  it('ends with draining', async () => {
    const { gateway } = await gatewayFixture();
    gateway.drain();
    expect([gateway.live(), gateway.ready(), gateway.modelReady('simple', '')]).toEqual([true, false, false]);
    await gateway.close();
    expect(gateway.live()).toBe(false);
  });
});

describe('a record that goes', () => {
  it('makes the model unknown', async () => {
    const { gateway, directory } = await gatewayFixture();
    await directory.withdraw('simple');
    expect(gateway.model('simple')).toMatchObject({ ok: false, error: { code: 'NOT_FOUND' } });
  });

  it('is remembered for as long as a takeover may take, where Redis may have forgotten it', async () => {
    const { gateway, directory, clock } = await gatewayFixture({ timing: timing() });
    await Promise.resolve();
    await directory.withdraw('simple');
    clock.advanceUs(4_999_999);
    expect(gateway.model('simple')).toMatchObject({ ok: true });
    clock.advanceUs(1);
    expect(gateway.model('simple')).toMatchObject({ ok: false, error: { code: 'NOT_FOUND' } });
    await directory.publish('simple', modelRecord(SIMPLE));
    expect(gateway.model('simple')).toMatchObject({ ok: true });
  });
});
