import { CANCELLED, QUEUE_TIMEOUT, STOPPING } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { type DeskPlay, deskPlay, slotOf } from './fixture-desk.ts';
import { STEP_HELD_US_MAX } from './session-events.ts';

const START_TEXT =
  "inference request for sequence 5 to model 'm' must specify the START flag on the first request of the sequence";

type Row = readonly [rule: string, play: (desk: DeskPlay) => unknown, last: (desk: DeskPlay) => string[], string[]];

/** A session a:1 that has a slot at w and has done its START. */
const begun = (desk: DeskPlay) => {
  desk.start('a:1');
  desk.send('a:1');
  desk.over('a:1');
};

const table = (rows: readonly Row[]) =>
  test.each(rows)('%s', (_rule, play, last, expected) => {
    const desk = deskPlay();
    play(desk);
    expect(last(desk)).toEqual(expected);
  });

describe('R12, R13: whose step it is', () => {
  table([
    ['a START begins a session', () => {}, (d) => d.start('a:1'), ['queue a:1 of a:1 start']],
    ['a step that names the present one', begun, (d) => d.arrive('a:2', { named: 'a:1' }), ['queue a:2 of a:1']],
    ['one that names none is told of it', begun, (d) => d.arrive('b:1'), ['moved b:1 to a:1']],
    ['a job that names none is of it', begun, (d) => d.arrive('b:1', { own: true }), ['queue b:1 of a:1']],
    ['one that names another is told of it', begun, (d) => d.arrive('b:1', { named: 'b:0' }), ['moved b:1 to a:1']],
    ['there is none', () => {}, (d) => d.arrive('b:1'), ['moved b:1 to null']],
    ['there is none for a job', () => {}, (d) => d.arrive('b:1', { own: true }), [`fail b:1: ${START_TEXT}`]],
    ['a number and a text are two ids', begun, (d) => d.arrive('b:1', { correlationId: '5' }), ['moved b:1 to null']],
    [
      'behind an END nothing goes on',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1', end: true });
      },
      (d) => d.arrive('a:3', { named: 'a:1' }),
      ['moved a:3 to null'],
    ],
    [
      'R13: of an ended session, what its marks do not cover',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1', end: true });
        d.send('a:2');
        d.over('a:2');
        d.start('b:1');
      },
      (d) => d.arrive('a:3', { named: 'a:1' }),
      ['moved a:3 to b:1'],
    ],
    [
      'R20: of an ended session, what they cover',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1', end: true });
        d.send('a:2');
        d.over('a:2');
      },
      (d) => d.arrive('a:2', { named: 'a:1', end: true, sends: 2 }),
      ['replay a:2 of a:1 at w/0'],
    ],
  ]);

  test('the answer of one that is replayed ends nothing', () => {
    const desk = deskPlay();
    desk.start('a:1', { end: true });
    desk.send('a:1');
    expect(desk.over('a:1')).toEqual(['over a:1 ended']);
    desk.start('b:1');
    expect(desk.start('a:1', { end: true, sends: 2 })).toEqual(['replay a:1 of a:1 at w/0']);
    expect(desk.over('a:1', 'replayed')).toEqual([]);
    expect([...desk.desk.sessions.keys()]).toEqual(['b:1']);
  });
});

describe('R16: the order of a chain', () => {
  table([
    [
      'a step goes behind the one before it that is queued',
      (d) => d.start('a:1'),
      (d) => d.arrive('a:2', { named: 'a:1', prev: 1 }),
      ['queue a:2 of a:1'],
    ],
    [
      'a step waits for one that has not come, and its session is not idle',
      begun,
      (d) => d.arrive('a:3', { named: 'a:1', prev: 2 }),
      ['held a:1'],
    ],
    [
      'and goes with it',
      (d) => {
        begun(d);
        d.arrive('a:4', { named: 'a:1', prev: 3 });
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.arrive('a:2', { named: 'a:1' }),
      ['queue a:2 of a:1', 'queue a:3 of a:1', 'queue a:4 of a:1', 'not held a:1'],
    ],
    [
      'or once its sender says that it is settled',
      (d) => {
        begun(d);
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.arrive('a:3', { named: 'a:1', prev: 2, low: 3, sends: 2 }),
      ['queue a:3 of a:1', 'not held a:1'],
    ],
    [
      'or once its worker says that it was applied',
      (d) => {
        begun(d);
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 1, n: 1 }, marks: [['a', 2]], steps: 2 })]),
      ['queue a:3 of a:1', 'not held a:1'],
    ],
    [
      'a START waits for steps that are sent again, since their own START was lost on its way',
      (d) => {
        d.arrive('a:2', { named: 'a:1', prev: 1 });
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.start('a:4', { prev: 3 }),
      [],
    ],
    [
      'but not for those that nobody sends again: there was no step before them',
      (d) => {
        d.arrive('a:2', { named: 'a:1' });
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.start('a:4', { prev: 3 }),
      ['queue a:4 of a:4 start'],
    ],
    [
      'a START that was lost on its way is not taken behind a later one of its gateway',
      (d) => d.start('a:4'),
      (d) => d.start('a:1', { sends: 2 }),
      ['fail a:1: sequence_lost'],
    ],
    ['a START waits for the last steps of the one before it', begun, (d) => d.start('a:3', { prev: 2 }), ['held a:1']],
    [
      'and goes behind them',
      (d) => {
        begun(d);
        d.start('a:3', { prev: 2 });
      },
      (d) => d.arrive('a:2', { named: 'a:1', end: true }),
      ['queue a:2 of a:1 end', 'queue a:3 of a:3 start replaces a:1'],
    ],
    [
      'one that the owner has failed is not waited for',
      (d) => {
        d.start('a:1');
        d.failed('a:1', QUEUE_TIMEOUT);
      },
      (d) => d.start('a:2', { prev: 1 }),
      ['queue a:2 of a:2 start'],
    ],
    [
      'R24: a step that waits for too long ends its session',
      (d) => {
        begun(d);
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.pass(STEP_HELD_US_MAX),
      ['fail a:3: sequence_lost', 'session-over a:1', 'free a:1 at w'],
    ],
    [
      'a START that waits for too long goes on',
      (d) => d.start('a:3', { prev: 2 }),
      (d) => d.pass(STEP_HELD_US_MAX),
      ['queue a:3 of a:3 start'],
    ],
  ]);
});

describe('R9: until all workers have said what they have', () => {
  const unknown = (desk: DeskPlay) => {
    desk.world.described = false;
  };
  table([
    ['a first START goes on', unknown, (d) => d.start('a:1'), ['queue a:1 of a:1 start']],
    ['a START that was sent before waits', unknown, (d) => d.start('a:1', { sends: 2 }), []],
    ['a numbered one always', unknown, (d) => d.start('a:1', { number: 0 }), []],
    ['a step waits', unknown, (d) => d.arrive('a:2', { named: 'a:1' }), []],
    ['one that names none too', unknown, (d) => d.arrive('a:2'), []],
    [
      'a session that a worker has goes on at once',
      (d) => {
        unknown(d);
        d.arrive('a:3', { named: 'a:1', sends: 2 });
        d.arrive('b:3', { named: 'b:1', correlationId: 6n });
      },
      (d) => d.described('w', [slotOf('a:1', { marks: [['a', 2]], steps: 2 })]),
      ['bound a:1 at w/0/0', 'queue a:3 of a:1'],
    ],
    [
      'what none has is decided then',
      (d) => {
        unknown(d);
        d.start('a:1', { sends: 2 });
        d.arrive('b:3', { named: 'b:1', correlationId: 6n });
        d.world.described = true;
      },
      (d) => d.gone('w'),
      ['queue a:1 of a:1 start', 'moved b:3 to null'],
    ],
    [
      'a START that was applied is replayed by its worker',
      (d) => {
        unknown(d);
        d.start('a:1', { sends: 2 });
      },
      (d) => d.described('w', [slotOf('a:1', { marks: [['a', 1]], steps: 1 })]),
      ['bound a:1 at w/0/0', 'queue a:1 of a:1'],
    ],
    [
      'of an ended one too',
      (d) => {
        unknown(d);
        d.arrive('a:2', { named: 'a:1', end: true, sends: 2 });
      },
      (d) =>
        d.described('w', [], {
          ended: [{ session: 'a:1', correlationId: 5n, marks: [['a', 2]], steps: 2, lost: false }],
        }),
      ['replay a:2 of a:1 at w/0'],
    ],
    [
      'one that a worker has lost is lost',
      (d) => {
        unknown(d);
        d.arrive('a:3', { named: 'a:1', sends: 2 });
      },
      (d) =>
        d.described('w', [], {
          ended: [{ session: 'a:1', correlationId: 5n, marks: [['a', 2]], steps: 2, lost: true }],
        }),
      ['fail a:3: sequence_lost'],
    ],
  ]);
});

describe('R21: starts, and slots that are there twice', () => {
  table([
    [
      'a START under a live id takes the place of the older session',
      begun,
      (d) => d.start('b:1'),
      ['queue b:1 of b:1 start replaces a:1', 'session-over a:1', 'free a:1 at w'],
    ],
    [
      'once its steps are over',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1' });
        d.send('a:2');
        d.start('b:1');
      },
      (d) => d.over('a:2'),
      ['over a:2', 'session-over a:1', 'free a:1 at w'],
    ],
    [
      'no step goes on with it meanwhile',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1' });
        d.start('b:1');
      },
      (d) => d.arrive('a:3', { named: 'a:1', prev: 2 }),
      ['moved a:3 to b:1'],
    ],
    [
      'the later bound of two for one id stays: the new one',
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 0, n: 1 } })]),
      (d) => d.described('v', [slotOf('b:1', { bind: { epoch: 0, n: 2 } })]),
      ['session-over a:1', 'free a:1 at w', 'bound b:1 at v/0/0'],
    ],
    [
      'the later bound of two for one id stays: the old one',
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 0, n: 2 } })]),
      (d) => d.described('v', [slotOf('b:1', { bind: { epoch: 0, n: 1 } })]),
      ['free b:1 at v'],
    ],
    [
      'the later bound of two for one session stays',
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 0, n: 1 } })]),
      (d) => d.described('v', [slotOf('a:1', { bind: { epoch: 0, n: 2 } })]),
      ['free a:1 at w', 'session-over a:1', 'bound a:1 at v/0/0'],
    ],
    [
      'the later bound of two for one session lacks a step: it is lost',
      (d) => d.described('w', [slotOf('a:1', { marks: [['a', 2]], steps: 2 })]),
      (d) => d.described('v', [slotOf('a:1', { bind: { epoch: 0, n: 2 }, marks: [['a', 1]], steps: 1 })]),
      ['session-over a:1', 'free a:1 at w', 'free a:1 at v'],
    ],
    [
      'also where the earlier bound is heard of later',
      (d) => d.described('v', [slotOf('a:1', { bind: { epoch: 0, n: 2 }, marks: [['a', 1]], steps: 1 })]),
      (d) => d.described('w', [slotOf('a:1', { marks: [['a', 2]], steps: 2 })]),
      ['session-over a:1', 'free a:1 at v', 'free a:1 at w'],
    ],
    [
      'a START that came back and was done all the same is where its worker says',
      (d) => {
        d.start('a:1');
        d.send('a:1');
        d.returned('a:1');
      },
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 1, n: 1 }, marks: [['a', 2]], steps: 2 })]),
      ['session-over a:1', 'bound a:1 at w/0/0', 'queue a:1 of a:1'],
    ],
    [
      'and so is one that was to be bound anew',
      (d) => {
        d.start('a:1');
        d.send('a:1');
        d.gone('w');
      },
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 1, n: 1 }, marks: [['a', 1]], steps: 1 })]),
      ['session-over a:1', 'bound a:1 at w/0/0', 'queue a:1 of a:1'],
    ],
    [
      'what is not wanted any more is freed again',
      (d) => {
        begun(d);
        d.evict('a:1');
      },
      (d) => d.described('w', [slotOf('a:1', { bind: { epoch: 1, n: 1 } })]),
      ['free a:1 at w'],
    ],
    [
      'a START whose worker is gone is bound again, with what follows it',
      (d) => {
        d.start('a:1');
        d.arrive('a:2', { named: 'a:1', prev: 1 });
        d.send('a:1');
      },
      (d) => d.gone('w'),
      ['session-over a:1', 'queue a:1 of a:1 start', 'queue a:2 of a:1'],
    ],
    [
      'but no session of which a step was done',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1' });
        d.send('a:2');
        d.arrive('a:3', { named: 'a:1', prev: 2 });
      },
      (d) => d.gone('w'),
      ['session-over a:1', 'fail a:2: sequence_lost', 'fail a:3: sequence_lost'],
    ],
    [
      'a worker that drains gives a START back',
      (d) => {
        d.start('a:1');
        d.send('a:1');
      },
      (d) => d.over('a:1', 'noslot'),
      ['session-over a:1', 'queue a:1 of a:1 start'],
    ],
  ]);

  test('a START that gets another slot is bound later than the first', () => {
    const desk = deskPlay();
    desk.start('a:1');
    desk.send('a:1', 'w');
    expect(desk.returned('a:1')).toEqual(['again a:1']);
    desk.send('a:1', 'v');
    expect(desk.desk.sessions.get('a:1')?.bind).toEqual({ epoch: 1, n: 2 });
    expect(desk.described('w', [slotOf('a:1', { bind: { epoch: 1, n: 1 } })])).toEqual(['free a:1 at w']);
  });
});

describe('R18, R19: what the end of a step means', () => {
  const step = (desk: DeskPlay) => {
    begun(desk);
    desk.arrive('a:2', { named: 'a:1' });
    desk.arrive('a:3', { named: 'a:1', prev: 2 });
    desk.send('a:2');
  };
  table([
    ['done', step, (d) => d.over('a:2'), ['over a:2']],
    ["a model's error", step, (d) => d.over('a:2', 'error'), ['over a:2']],
    ['replayed', step, (d) => d.over('a:2', 'replayed'), ['over a:2']],
    [
      'lost at its worker',
      step,
      (d) => d.over('a:2', 'lost'),
      ['fail a:2: sequence_lost', 'session-over a:1', 'free a:1 at w', 'fail a:3: sequence_lost'],
    ],
    [
      'a gap',
      step,
      (d) => d.over('a:2', 'gap'),
      ['fail a:2: sequence_lost', 'session-over a:1', 'free a:1 at w', 'fail a:3: sequence_lost'],
    ],
    [
      'not known at its worker',
      step,
      (d) => d.over('a:2', 'noslot'),
      ['fail a:2: sequence_lost', 'session-over a:1', 'free a:1 at w', 'fail a:3: sequence_lost'],
    ],
    [
      'cancelled where it ran',
      step,
      (d) => d.over('a:2', 'cancelled'),
      ['session-over a:1', 'free a:1 at w', `fail a:3: ${CANCELLED.message}`],
    ],
    ['cancelled as it waited', step, (d) => d.failed('a:3', CANCELLED), ['session-over a:1', 'free a:1 at w']],
    [
      'one that is out then ends by itself',
      (d) => {
        step(d);
        d.failed('a:3', QUEUE_TIMEOUT);
      },
      (d) => d.over('a:2'),
      [],
    ],
    [
      'and is lost with its worker',
      (d) => {
        step(d);
        d.failed('a:3', QUEUE_TIMEOUT);
      },
      (d) => d.returned('a:2'),
      ['fail a:2: sequence_lost'],
    ],
    [
      'too late: the others are lost',
      step,
      (d) => {
        d.over('a:2');
        return d.failed('a:3', QUEUE_TIMEOUT);
      },
      ['session-over a:1', 'free a:1 at w'],
    ],
    [
      'a stop: the others get its text',
      (d) => {
        d.start('a:1');
        d.arrive('a:2', { named: 'a:1', prev: 1 });
      },
      (d) => d.failed('a:1', STOPPING),
      ['session-over a:1', `fail a:2: ${STOPPING.message}`],
    ],
    ['R28: its batch was lost, and it goes to the same slot', step, (d) => d.returned('a:2'), ['again a:2']],
    [
      'it runs already: nothing else goes before it is over',
      (d) => {
        step(d);
        d.over('a:2', 'duplicate');
      },
      (d) => d.arrive('b:1', { named: 'a:1' }),
      ['held a:1'],
    ],
    [
      'and goes then',
      (d) => {
        step(d);
        d.over('a:2', 'duplicate');
        d.arrive('b:1', { named: 'a:1' });
      },
      (d) => d.over('a:2'),
      ['over a:2', 'queue b:1 of a:1', 'not held a:1'],
    ],
    [
      'its session is over and it runs already: then it is lost with its worker',
      (d) => {
        step(d);
        d.failed('a:3', QUEUE_TIMEOUT);
        d.over('a:2', 'duplicate');
      },
      (d) => d.returned('a:2'),
      ['fail a:2: sequence_lost'],
    ],
    [
      'it runs already, and its session has ended meanwhile: it fails once its worker does not have it any more',
      (d) => {
        step(d);
        d.evict('a:1');
        d.over('a:2', 'duplicate');
      },
      (d) => d.returned('a:2'),
      ['fail a:2: sequence_lost'],
    ],
    ['idle', begun, (d) => d.closed('a:1', 'idle'), ['free a:1 at w']],
    [
      'lost, and then named once more',
      (d) => {
        step(d);
        d.gone('w');
      },
      (d) => d.arrive('b:1', { named: 'a:1' }),
      ['fail b:1: sequence_lost'],
    ],
    [
      'lost, and then without a name',
      (d) => {
        step(d);
        d.gone('w');
      },
      (d) => d.arrive('b:1'),
      ['fail b:1: sequence_lost'],
    ],
    [
      'lost, and then begun anew',
      (d) => {
        step(d);
        d.gone('w');
      },
      (d) => d.start('b:1'),
      ['queue b:1 of b:1 start'],
    ],
  ]);
});

describe('lost at a worker that lives', () => {
  const out = (desk: DeskPlay) => {
    begun(desk);
    desk.arrive('a:2', { named: 'a:1' });
    desk.send('a:2');
  };
  table([
    ['missing where nobody asked says nothing', out, (d) => d.described('w', []), []],
    [
      'missing in an answer to an older question says nothing',
      out,
      (d) => d.described('w', [], { sentUpTo: d.batch - 1 }),
      [],
    ],
    [
      'missing in the answer to a later one',
      out,
      (d) => d.described('w', [], { sentUpTo: d.batch }),
      ['session-over a:1', 'fail a:2: sequence_lost'],
    ],
    ['but not while its step runs there', out, (d) => d.described('w', [], { sentUpTo: 9, running: ['a:2'] }), []],
    [
      'told as lost',
      out,
      (d) =>
        d.described('w', [], {
          ended: [{ session: 'a:1', correlationId: 5n, marks: [['a', 1]], steps: 1, lost: true }],
        }),
      ['session-over a:1', 'fail a:2: sequence_lost'],
    ],
    [
      'told as ended says nothing: its step is answered by its worker',
      out,
      (d) =>
        d.described('w', [], {
          ended: [{ session: 'a:1', correlationId: 5n, marks: [['a', 2]], steps: 2, lost: false }],
        }),
      [],
    ],
  ]);
});

describe('R22: numbered steps', () => {
  const numbered = (desk: DeskPlay) => {
    desk.start('a:1', { number: 0 });
    desk.send('a:1');
    desk.over('a:1');
  };
  table([
    [
      'are found by their id, whatever they name',
      numbered,
      (d) => d.arrive('b:1', { number: 1, named: 'b:0' }),
      ['queue b:1 of a:1'],
    ],
    [
      'a START once more is one of the same session',
      numbered,
      (d) => d.start('b:1', { number: 0 }),
      ['queue b:1 of a:1'],
    ],
    [
      'not due: the session goes on',
      (d) => {
        numbered(d);
        d.arrive('b:1', { number: 7 });
        d.send('b:1');
      },
      (d) => d.over('b:1', 'refused'),
      ['over b:1'],
    ],
    [
      'an END that is not due ends nothing',
      (d) => {
        numbered(d);
        d.arrive('b:1', { number: 7, end: true });
        d.send('b:1');
        d.over('b:1', 'refused');
      },
      (d) => d.arrive('b:2', { number: 1 }),
      ['queue b:2 of a:1'],
    ],
    [
      'behind an END they wait for it',
      (d) => {
        numbered(d);
        d.arrive('a:2', { number: 1, end: true });
        d.send('a:2');
      },
      (d) => d.arrive('b:1', { number: 1, end: true }),
      ['held a:1'],
    ],
    [
      'and are replayed then',
      (d) => {
        numbered(d);
        d.arrive('a:2', { number: 1, end: true });
        d.send('a:2');
        d.arrive('b:1', { number: 1, end: true });
      },
      (d) => d.over('a:2'),
      ['over a:2 ended', 'replay b:1 of a:1 at w/0'],
    ],
    [
      'of a lost session',
      (d) => {
        numbered(d);
        d.gone('w');
      },
      (d) => d.start('b:1', { number: 0 }),
      ['fail b:1: sequence_lost'],
    ],
    ['without a session', () => {}, (d) => d.arrive('b:1', { number: 3 }), ['moved b:1 to null']],
  ]);
});

describe('R29: data that were lost', () => {
  table([
    [
      'a START gives its slot back, and all that follows waits',
      (d) => {
        d.start('a:1');
        d.arrive('a:2', { named: 'a:1', prev: 1 });
        d.send('a:1');
      },
      (d) => d.over('a:1', 'blob'),
      ['session-over a:1'],
    ],
    [
      'until it comes again',
      (d) => {
        d.start('a:1');
        d.arrive('a:2', { named: 'a:1', prev: 1 });
        d.send('a:1');
        d.over('a:1', 'blob');
        d.arrive('b:1', { named: 'a:1' });
      },
      (d) => d.start('a:1', { sends: 2 }),
      ['queue a:1 of a:1 start', 'queue a:2 of a:1', 'queue b:1 of a:1'],
    ],
    [
      'a step keeps its place',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1' });
        d.arrive('a:3', { named: 'a:1', prev: 2 });
        d.send('a:2');
      },
      (d) => d.over('a:2', 'blob'),
      [],
    ],
    [
      'and goes on with its data',
      (d) => {
        begun(d);
        d.arrive('a:2', { named: 'a:1' });
        d.send('a:2');
        d.over('a:2', 'blob');
      },
      (d) => d.arrive('a:2', { named: 'a:1', sends: 2 }),
      ['again a:2'],
    ],
    [
      'nothing comes',
      (d) => {
        d.start('a:1');
        d.send('a:1');
        d.over('a:1', 'blob');
      },
      (d) => d.pass(STEP_HELD_US_MAX),
      ['fail a:1: sequence_lost'],
    ],
  ]);
});

test('what ended is forgotten after a while, and in the end all is', () => {
  const { desk, start, send, over, world } = deskPlay();
  for (let n = 1; n <= 5_000; n++) {
    start(`a:${n}`, { end: true, correlationId: BigInt(n) });
    send(`a:${n}`);
    over(`a:${n}`);
  }
  expect([desk.sessions.size, desk.held]).toEqual([0, 0]);
  expect(['a:1', 'a:904', 'a:905'].map((id) => desk.knows(id) !== undefined)).toEqual([false, false, true]);
  world.nowUs += 60_000_001;
  start('b:1', { end: true });
  send('b:1');
  over('b:1');
  expect(desk.knows('a:5000')).toBeUndefined();
});

test('a session of which a step is held is not idle at the next worker either', () => {
  const desk = deskPlay();
  desk.world.described = false;
  desk.arrive('a:4', { named: 'a:1', prev: 3, sends: 2 });
  expect(desk.described('w', [slotOf('a:1', { bind: { epoch: 0, n: 1 }, marks: [['a', 2]], steps: 2 })])).toEqual([
    'bound a:1 at w/0/0',
    'held a:1',
  ]);
  expect(desk.described('v', [slotOf('a:1', { bind: { epoch: 0, n: 2 }, marks: [['a', 2]], steps: 2 })])).toEqual([
    'free a:1 at w',
    'session-over a:1',
    'bound a:1 at v/0/0',
    'held a:1',
  ]);
});

test('a session that is replaced before it was sent leaves the scheduler without a slot', () => {
  const desk = deskPlay();
  desk.start('a:1');
  desk.start('b:1');
  desk.failed('a:1', QUEUE_TIMEOUT);
  expect([...desk.desk.sessions.keys()]).toEqual(['b:1']);
});
