import { describe, expect, it } from 'vitest';
import { parseOptions } from './options-parse.ts';
import { readTraceConfig, type TraceFlags } from './options-trace.ts';
import { NO_TRACES } from './trace-config.ts';

const FLAGS: TraceFlags = {
  traceConfig: [],
  traceFile: '',
  traceLevel: [],
  traceRate: 1_000,
  traceCount: -1,
  traceLogFrequency: 0,
};

const read = (flags: Partial<TraceFlags>, env: Record<string, string> = {}) => {
  const result = readTraceConfig({ ...FLAGS, ...flags }, env);
  return result.ok ? result.value : result.error;
};

describe('the trace settings at start', () => {
  it.each<[string, Partial<TraceFlags>, object]>([
    ['without a flag nothing is traced', {}, NO_TRACES],
    ['a level', { traceConfig: ['level=TIMESTAMPS'] }, { levels: ['TIMESTAMPS'] }],
    [
      'levels add up, in their own order',
      { traceConfig: ['level=tensors', 'level=TIMESTAMPS', 'level=tensors'] },
      { levels: ['TIMESTAMPS', 'TENSORS'] },
    ],
    ['OFF adds none', { traceConfig: ['level=OFF', 'level=TENSORS'] }, { levels: ['TENSORS'] }],
    ['an old name of a level', { traceConfig: ['level=MAX'] }, { levels: ['TIMESTAMPS'] }],
    ['numbers', { traceConfig: ['rate=7', 'count=0'] }, { rate: 7, count: 0 }],
    ['the last of a setting holds', { traceConfig: ['rate=7', 'rate=8'] }, { rate: 8 }],
    [
      'a file, and how many traces it takes',
      { traceConfig: ['triton,file=/tmp/a,b=c', 'triton,log-frequency=50'] },
      { file: '/tmp/a,b=c', logFrequency: 50 },
    ],
    ['a mode, in any case', { traceConfig: ['mode=OpenTelemetry'] }, { mode: 'opentelemetry' }],
    ['settings of the other mode are left', { traceConfig: ['opentelemetry,url=http://a'] }, { exporter: [] }],
    [
      'deprecated flags',
      { traceFile: 'f', traceLevel: ['TENSORS'], traceRate: 5, traceCount: 6, traceLogFrequency: 7 },
      { file: 'f', levels: ['TENSORS'], rate: 5, count: 6, logFrequency: 7 },
    ],
    [
      '--trace-config comes before a deprecated flag',
      { traceRate: 5, traceFile: 'f', traceConfig: ['rate=6', 'triton,file=g'] },
      { rate: 6, file: 'g' },
    ],
    [
      'levels of both together',
      { traceLevel: ['TENSORS'], traceConfig: ['level=TIMESTAMPS'] },
      { levels: ['TIMESTAMPS', 'TENSORS'] },
    ],
    ['a deprecated OFF beats all', { traceLevel: ['OFF'], traceConfig: ['level=TIMESTAMPS'] }, { levels: [] }],
  ])('%s', (_rule, flags, expected) => {
    expect(read(flags)).toMatchObject(expected);
  });

  it('what the exporter of spans is told: as given, then the defaults of OpenTelemetry', () => {
    const traceConfig = [
      'mode=opentelemetry',
      'opentelemetry,url=http://c:4318/v1/traces',
      'opentelemetry,resource=service.name=a',
      'opentelemetry,resource=k=v',
      'opentelemetry,bsp_schedule_delay=100',
    ];
    expect(read({ traceConfig }, { OTEL_BSP_MAX_QUEUE_SIZE: '9', OTEL_BSP_SCHEDULE_DELAY: '8' })).toMatchObject({
      exporter: [
        ['url', 'http://c:4318/v1/traces'],
        ['resource', 'service.name=a'],
        ['resource', 'k=v'],
        ['bsp_schedule_delay', '100'],
        ['bsp_max_queue_size', '9'],
        ['bsp_max_export_batch_size', '512'],
      ],
    });
  });

  it.each([
    ['level', 'give <setting>=<value> or <mode>,<setting>=<value>'],
    ['level=', 'give <setting>=<value> or <mode>,<setting>=<value>'],
    [',level=OFF', 'give <setting>=<value> or <mode>,<setting>=<value>'],
    ['triton,file', 'give <setting>=<value> or <mode>,<setting>=<value>'],
    ['jaeger,url=x', "there is no trace mode 'jaeger': give triton or opentelemetry"],
    ['mode=jaeger', "'jaeger' is not allowed: give triton or opentelemetry"],
    ['level=LOUD', "'LOUD' is not allowed: give OFF, TIMESTAMPS or TENSORS"],
    ['level=constructor', "'constructor' is not allowed: give OFF, TIMESTAMPS or TENSORS"],
    ['speed=1', "there is no setting 'speed': give mode, level, rate, count"],
    ['triton,url=x', "there is no setting 'url': give file, log-frequency"],
    ['rate=-1', "'-1' is not allowed: give a whole number from 0 to 4294967295"],
    ['rate=1e3', "'1e3' is not allowed: give a whole number from 0 to 4294967295"],
    ['count=-2', "'-2' is not allowed: give a whole number from -1 to 2147483647"],
    ['opentelemetry,resource=name', "'name' is not allowed: give <key>=<value>"],
    ['opentelemetry,bsp_max_queue_size=many', "'many' is not allowed: give a whole number from 0 to 4294967295"],
  ])('--trace-config=%s is refused', (text, why) => {
    expect(read({ traceConfig: [text] })).toBe(`--trace-config=${text}: ${why}`);
    const parsed = parseOptions({
      argv: ['--model-repository=/m', `--trace-config=${text}`],
      env: {},
      readFile: () => '',
    });
    expect(parsed).toEqual({ ok: false, error: `--trace-config=${text}: ${why}` });
  });

  it.each(['LOUD', 'constructor'])('--trace-level=%s is refused', (text) => {
    expect(read({ traceLevel: [text] })).toBe(`--trace-level=${text}: give OFF, TIMESTAMPS or TENSORS`);
  });

  it('a deprecated flag is warned about', () => {
    const parsed = parseOptions({
      argv: ['--model-repository=/m', '--trace-rate=5', '--trace-config=count=1'],
      env: {},
      readFile: () => '',
    });
    expect(parsed).toMatchObject({
      ok: true,
      warnings: ['--trace-rate is deprecated: use --trace-config=rate=<number>'],
    });
  });
});
