import type { CountMessage, VersionStatistics } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { type GatewayFixture, gatewayFixture, identity, modelRecord, readyVersion, SIMPLE } from './gateway-fixture.ts';

const NONE = { count: 0, ns: 0 };

function counts(name: string, version: string): VersionStatistics {
  return {
    name,
    version,
    lastInferenceMs: 0,
    inferenceCount: 0,
    executionCount: 0,
    inference: {
      success: NONE,
      fail: NONE,
      queue: NONE,
      computeInput: NONE,
      computeInfer: NONE,
      computeOutput: NONE,
      cacheHit: NONE,
      cacheMiss: NONE,
    },
    responses: [],
    batches: [],
  };
}

const three = modelRecord(identity('three', 'FP32'), [
  readyVersion('2'),
  { version: '3', state: 'LOADING', reason: '' },
  readyVersion('10'),
]);
const MODELS = [modelRecord(SIMPLE), three, modelRecord(identity('gone', 'FP32'), [])];

/** The questions that came to the coordinator, in order. */
const questionsOf = ({ received }: GatewayFixture) =>
  received.filter((message): message is CountMessage => message.kind === 'count');

/** Answers a question with what it asks for. */
function tell(fixture: GatewayFixture, question: CountMessage | undefined): void {
  if (question === undefined) throw new Error('no question');
  const { id, model, versions } = question;
  fixture.coordinator.send('gw-1', {
    kind: 'counted',
    model,
    id,
    versions: versions.map((version) => counts(model, version)),
  });
}

/** Names and versions of an answer, or its error. */
async function shown(answer: ReturnType<GatewayFixture['gateway']['statistics']['of']>) {
  const told = await answer;
  return told.ok
    ? told.value.map(({ name, version }) => `${name} ${version}`)
    : `${told.error.code}: ${told.error.message}`;
}

describe('statistics', () => {
  it("are asked of the model's owner under its epoch", async () => {
    const fixture = await gatewayFixture();
    const answer = fixture.gateway.statistics.of('simple', '');
    await fixture.arrived(1);
    expect(fixture.received).toEqual([
      { kind: 'count', model: 'simple', epoch: fixture.directory.owner('simple'), id: 'gw-1:c1', versions: ['1'] },
    ]);
    tell(fixture, questionsOf(fixture)[0]);
    expect(await answer).toEqual({ ok: true, value: [counts('simple', '1')] });
    expect(fixture.clock.liveTimers).toBe(0);
  });

  it.each([
    ['three', '', ['three 2', 'three 10']],
    ['three', '10', ['three 10']],
    ['three', '0010', ['three 10']],
    ['', '', ['simple 1', 'three 2', 'three 10']],
  ])("of '%s' version '%s' are those of READY versions: %j", async (name, version, expected) => {
    const fixture = await gatewayFixture({ models: [...MODELS].reverse() });
    const answer = fixture.gateway.statistics.of(name, version);
    await fixture.arrived(name === '' ? 2 : 1);
    for (const question of questionsOf(fixture)) tell(fixture, question);
    expect(await shown(answer)).toEqual(expected);
  });

  it.each([
    ['missing', '', "INVALID_ARG: requested model 'missing' is not available"],
    ['missing', '1', "INVALID_ARG: requested model 'missing' is not available"],
    ['gone', '', "INVALID_ARG: requested model 'gone' is not available"],
    ['simple', '7', "INVALID_ARG: requested model version is not available for model 'simple'"],
    ['three', '3', "INVALID_ARG: requested model version is not available for model 'three'"],
    ['missing', '-1', "INVALID_ARG: invalid model version specified '-1' , version should be an integral value > 0"],
    [
      'simple',
      'one',
      "INVALID_ARG: failed to get model version from specified version string 'one' (details: stol), version should be an integral value > 0",
    ],
  ])("of '%s' version '%s' are refused: %s", async (name, version, text) => {
    const fixture = await gatewayFixture({ models: MODELS });
    expect(await shown(fixture.gateway.statistics.of(name, version))).toBe(text);
    expect(fixture.received).toEqual([]);
  });

  it('of no models at all are none', async () => {
    const { gateway } = await gatewayFixture({ models: [] });
    expect(await gateway.statistics.of('', '')).toEqual({ ok: true, value: [] });
  });

  it('are asked for again where no answer comes; one to an earlier copy counts as well', async () => {
    const fixture = await gatewayFixture();
    const answer = fixture.gateway.statistics.of('simple', '');
    await fixture.arrived(1);
    fixture.clock.advanceUs(499_999);
    expect(fixture.received).toHaveLength(1);
    fixture.clock.advanceUs(1);
    await fixture.arrived(2);
    const [first, second] = questionsOf(fixture);
    expect(second).toEqual(first);
    tell(fixture, first);
    expect(await shown(answer)).toEqual(['simple 1']);
    tell(fixture, second);
    expect(fixture.clock.liveTimers).toBe(0);
  });

  it('are not taken from a former owner once a new one is asked', async () => {
    const fixture = await gatewayFixture();
    const answer = fixture.gateway.statistics.of('simple', '');
    await fixture.arrived(1);
    await fixture.directory.release('simple', 'co-1');
    await fixture.directory.acquire('simple', 'co-1');
    fixture.clock.advanceUs(500_000);
    await fixture.arrived(2);
    const [first, second] = questionsOf(fixture);
    expect(second?.id).toBe('gw-1:c2');
    if (first !== undefined) tell(fixture, { ...first, versions: ['9'] });
    tell(fixture, second);
    expect(await shown(answer)).toEqual(['simple 1']);
  });

  it('are asked for again soon where the one asked is not, or not yet, the one to tell', async () => {
    const fixture = await gatewayFixture();
    const answer = fixture.gateway.statistics.of('simple', '');
    await fixture.arrived(1);
    await fixture.directory.release('simple', 'co-1');
    fixture.coordinator.send('gw-1', { kind: 'stale', model: 'simple', id: 'gw-1:c1', known: null });
    await Promise.resolve();
    fixture.clock.advanceUs(100_000);
    await fixture.directory.acquire('simple', 'co-1');
    expect(fixture.received).toHaveLength(1);
    fixture.clock.advanceUs(100_000);
    await fixture.arrived(2);
    expect(questionsOf(fixture)[1]?.epoch).toEqual(fixture.directory.owner('simple'));
    tell(fixture, questionsOf(fixture)[1]);
    expect(await shown(answer)).toEqual(['simple 1']);
  });

  it('are refused with 503 where nobody tells in time, though others did', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = fixture.gateway.statistics.of('', '');
    await fixture.arrived(2);
    tell(fixture, questionsOf(fixture)[0]);
    await Promise.resolve();
    for (let steps = 0; steps < 10; steps++) fixture.clock.advanceUs(500_000);
    expect(await shown(answer)).toBe(
      "UNAVAILABLE: the coordinator that owns model 'three' did not tell its statistics in time; try again",
    );
    expect(fixture.clock.liveTimers).toBe(0);
  });

  it('of a model that is unloaded meanwhile are refused as of an unknown one', async () => {
    const fixture = await gatewayFixture();
    const answer = fixture.gateway.statistics.of('simple', '1');
    await fixture.arrived(1);
    await fixture.directory.withdraw('simple');
    fixture.clock.advanceUs(500_000);
    expect(await shown(answer)).toBe("INVALID_ARG: requested model version is not available for model 'simple'");
  });

  it('of many versions are asked for in parts, of many models some at a time', async () => {
    const versions = Array.from({ length: 33 }, (_, index) => readyVersion(`${index + 1}`));
    const many = modelRecord(identity('many', 'FP32'), versions);
    const others = Array.from({ length: 80 }, (_, index) => modelRecord(identity(`n${index}`, 'FP32')));
    const fixture = await gatewayFixture({ models: [many, ...others] });
    const answer = fixture.gateway.statistics.of('', '');
    await fixture.arrived(64);
    expect(fixture.received).toHaveLength(64);
    expect(
      questionsOf(fixture)
        .slice(0, 2)
        .map((question) => question.versions.length),
    ).toEqual([32, 1]);
    let answered = 0;
    while (answered < 82) {
      await fixture.arrived(answered + 1);
      tell(fixture, questionsOf(fixture)[answered++]);
    }
    const told = await answer;
    expect(told.ok && told.value).toHaveLength(33 + 80);
  });

  it('end with the gateway, and are refused after it', async () => {
    const { gateway, clock } = await gatewayFixture();
    const answer = gateway.statistics.of('simple', '');
    await gateway.close();
    expect(await shown(answer)).toMatch(/^UNAVAILABLE: the coordinator/);
    expect(await shown(gateway.statistics.of('simple', ''))).toMatch(/^UNAVAILABLE: Server is stopping/);
    expect(clock.liveTimers).toBe(0);
  });

  it('are refused where too many ask at a time', async () => {
    const { gateway } = await gatewayFixture();
    const asking = Array.from({ length: 256 }, () => gateway.statistics.of('simple', ''));
    expect(await shown(gateway.statistics.of('simple', ''))).toBe(
      'UNAVAILABLE: too many requests for statistics at a time; try again',
    );
    await gateway.close();
    await Promise.all(asking);
  });
});
