import { NO_TRACES } from '@nereid/config';
import { afterEach, describe, expect, it } from 'vitest';
import { servicesFixture } from '../services-fixture.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { askJson, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';

let fixture: GrpcFixture;
afterEach(() => fixture.close());

/** A server that begins with these trace settings. */
async function served(traces = NO_TRACES) {
  const { gateway, directory } = await grpcFixture();
  fixture = await grpcFixture({ grpc: { gateway, services: servicesFixture(directory, traces) } });
  return { ask: askJson(fixture.client()) };
}

const CODE = { INVALID_ARG: 3, UNSUPPORTED: 12 } as const;

const { logSettings, traceSetting } = GRPCInferenceService.method;

describe('LogSettings', () => {
  const bool = (value: boolean) => ({ parameterChoice: { case: 'boolParam', value } as const });
  const text = (value: string) => ({ parameterChoice: { case: 'stringParam', value } as const });
  const uint = (value: number) => ({ parameterChoice: { case: 'uint32Param', value } as const });
  const shown = (changed: object = {}) => ({
    code: 0,
    message: {
      settings: {
        log_file: { string_param: '' },
        log_info: { bool_param: true },
        log_warning: { bool_param: true },
        log_error: { bool_param: true },
        log_verbose_level: { uint32_param: 0 },
        log_format: { string_param: 'default' },
        ...changed,
      },
    },
  });

  it('shows the settings, and changes those that are named', async () => {
    const { ask } = await served();
    expect(await ask(logSettings, {})).toEqual(shown());
    expect(await ask(logSettings, { settings: { log_colour: text('red') } })).toEqual(shown());
    const changed = { log_info: { bool_param: false }, log_verbose_level: { uint32_param: 2 } };
    const settings = { log_info: bool(false), log_verbose_level: uint(2), log_format: text('ISO8601') };
    const after = shown({ ...changed, log_format: { string_param: 'ISO8601' } });
    expect([await ask(logSettings, { settings }), await ask(logSettings, {})]).toEqual([after, after]);
  });

  it.each([
    [{ log_file: text('x') }, 'UNSUPPORTED' as const, 'log file location can not be updated through network protocol'],
    [{ log_info: text('false') }, 'INVALID_ARG' as const, "expect boolean for 'log_info'"],
    [{ log_error: {} }, 'INVALID_ARG' as const, "expect boolean for 'log_error'"],
    [{ log_verbose_level: bool(true) }, 'INVALID_ARG' as const, "expect int32 for 'log_verbose_level'"],
    [{ log_verbose_level: uint(2147483648) }, 'INVALID_ARG' as const, "expect int32 for 'log_verbose_level'"],
    [{ log_format: bool(true) }, 'INVALID_ARG' as const, "expect string for 'log_format'"],
    [{ log_format: text('zz') }, 'INVALID_ARG' as const, 'invalid argument for log_format, got: zz'],
  ])('%j is refused', async (settings, code, message) => {
    const { ask } = await served();
    expect(await ask(logSettings, { settings })).toMatchObject({ code: CODE[code], details: message });
    expect(await ask(logSettings, {})).toEqual(shown());
  });

  it('settings before a wrong one hold all the same', async () => {
    const { ask } = await served();
    await ask(logSettings, { settings: { log_verbose_level: text('1'), log_warning: bool(false) } });
    expect(await ask(logSettings, {})).toEqual(shown({ log_warning: { bool_param: false } }));
  });
});

describe('TraceSetting', () => {
  const START = { ...NO_TRACES, file: 'f' };
  const shown = (changed: Readonly<Record<string, readonly string[]>> = {}) => {
    const all = {
      trace_level: ['OFF'],
      trace_rate: ['1000'],
      trace_count: ['-1'],
      log_frequency: ['0'],
      trace_file: ['f'],
      trace_mode: ['triton'],
      ...changed,
    };
    const settings = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, { value }]));
    return { code: 0, message: { settings } };
  };
  const set = (settings: Readonly<Record<string, string[]>>, modelName = '') => ({
    modelName,
    settings: Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, { value }])),
  });

  it('shows the settings, and changes and clears those that are named', async () => {
    const { ask } = await served(START);
    expect(await ask(traceSetting, {})).toEqual(shown());
    const wanted = set({ trace_rate: ['5'], trace_level: ['TENSORS', 'TIMESTAMPS'] });
    const after = shown({ trace_rate: ['5'], trace_level: ['TIMESTAMPS', 'TENSORS'] });
    expect([await ask(traceSetting, wanted), await ask(traceSetting, {})]).toEqual([after, after]);
    expect(await ask(traceSetting, set({ trace_rate: [], trace_level: [] }))).toEqual(shown());
  });

  it('of one model', async () => {
    const { ask } = await served(START);
    expect(await ask(traceSetting, set({ trace_count: ['3'] }, 'simple'))).toEqual(shown({ trace_count: ['3'] }));
    expect(await ask(traceSetting, {})).toEqual(shown());
    expect(await ask(traceSetting, { modelName: 'missing' })).toMatchObject({
      code: CODE.INVALID_ARG,
      details: 'Request for unknown model : missing',
    });
  });

  it.each([
    [{ trace_file: ['x'] }, 'UNSUPPORTED' as const, 'trace file location can not be updated through network protocol'],
    [{ trace_rate: ['5', '6'] }, 'INVALID_ARG' as const, "expect only 1 value for 'trace_rate'"],
    [{ trace_level: ['OFF', 'TENSORS'] }, 'INVALID_ARG' as const, "Expect only one trace level 'OFF' is specified"],
    [{ trace_count: ['many'] }, 'INVALID_ARG' as const, "Unable to parse 'trace_count', got: many"],
  ])('%j is refused', async (settings, code, message) => {
    const { ask } = await served(START);
    expect(await ask(traceSetting, set(settings))).toMatchObject({ code: CODE[code], details: message });
  });
});
