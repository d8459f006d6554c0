import { describe, expect, test } from 'vitest';
import { playEnsemble } from './fixture-ensemble.ts';

describe('which steps are called', () => {
  test('each once its tensors are there, one after the other', () => {
    const { begin, answer, run } = playEnsemble(['x > a', 'a > z'], { requested: ['z'] });
    expect(begin('x=1')).toEqual(['call 0: step 0 (I0=1)']);
    expect(answer(0, 'a=2')).toEqual(['call 1: step 1 (I0=2)', 'release 1']);
    expect(run.over).toBe(false);
    expect(answer(1, 'z=3')).toEqual(['respond last (z=3)', 'release 2 3']);
    expect(run.over).toBe(true);
  });

  test('independent ones at once; one that takes of both waits for both', () => {
    const { begin, answer } = playEnsemble(['x > a', 'y > b', 'a b > z'], { requested: ['z'] });
    expect(begin('x=1', 'y=2')).toEqual(['call 0: step 0 (I0=1)', 'call 1: step 1 (I0=2)']);
    expect(answer(1, 'b=4')).toEqual(['release 2']);
    expect(answer(0, 'a=3')).toEqual(['call 2: step 2 (I0=3 I1=4)', 'release 1']);
  });

  test('one tensor feeds two steps, and is answered too (BC-115)', () => {
    const { begin, answer } = playEnsemble(['x > a', 'a > b', 'a > c'], { requested: ['a', 'b', 'c'] });
    begin('x=1');
    expect(answer(0, 'a=2')).toEqual(['call 1: step 1 (I0=2)', 'call 2: step 2 (I0=2)', 'release 1']);
    expect(answer(2, 'c=4')).toEqual([]);
    expect(answer(1, 'b=3')).toEqual(['respond last (a=2 b=3 c=4)', 'release 2 3 4']);
  });

  test('one tensor for two inputs of a step', () => {
    const { begin, answer } = playEnsemble(['x x > z'], { requested: ['z'] });
    expect(begin('x=1')).toEqual(['call 0: step 0 (I0=1 I1=1)']);
    expect(answer(0, 'z=2')).toEqual(['respond last (z=2)', 'release 1 2']);
  });

  test('an output that was not asked for is computed where another needs it', () => {
    const { begin, answer } = playEnsemble(['x > a', 'a > z'], { requested: ['z'] });
    begin('x=1');
    answer(0, 'a=2');
    expect(answer(1, 'z=3')).toEqual(['respond last (z=3)', 'release 2 3']);
  });

  test('a step that only leads to outputs nobody asked for is not called, and its tensors go at once', () => {
    const { begin, answer } = playEnsemble(['x > a b', 'a > y', 'y > w', 'b > z', 'u > v'], { requested: ['z'] });
    expect(begin('x=1', 'u=2')).toEqual(['call 0: step 0 (I0=1)', 'release 2']);
    expect(answer(0, 'a=3', 'b=4')).toEqual(['call 1: step 3 (I0=4)', 'release 1 3']);
    expect(answer(1, 'z=5')).toEqual(['respond last (z=5)', 'release 4 5']);
  });

  test('an answer told twice, or one for no call, changes nothing', () => {
    const { begin, answer } = playEnsemble(['x > a', 'a > z'], { requested: ['z'] });
    begin('x=1');
    answer(0, 'a=2');
    expect(answer(0, 'a=2')).toEqual([]);
    expect(answer(7, 'a=2')).toEqual([]);
  });
});

describe('what is left out', () => {
  test('by the client: the step is called without it', () => {
    const { begin } = playEnsemble(['x y > z'], { requested: ['z'] });
    expect(begin('x=1')).toEqual(['call 0: step 0 (I0=1)']);
  });

  test('by a model: the step after it is called without it, once the others are there', () => {
    const { begin, answer } = playEnsemble(['x > a b', 'y > c', 'a b c > z'], { requested: ['z'] });
    begin('x=1', 'y=2');
    expect(answer(0, 'b=3')).toEqual(['release 1']);
    expect(answer(1, 'c=4')).toEqual(['call 2: step 2 (I1=3 I2=4)', 'release 2']);
  });

  test('an output of the ensemble: the answer lacks it', () => {
    const { begin, answer } = playEnsemble(['x > y z'], { requested: ['y', 'z'] });
    begin('x=1');
    expect(answer(0, 'z=2')).toEqual(['respond last (z=2)', 'release 1 2']);
  });

  test('the whole answer of a step: the run ends as a deadlock', () => {
    const { begin, end } = playEnsemble(['x > a', 'a > z'], { requested: ['z'] });
    begin('x=1');
    expect(end(0)).toEqual([
      "fail INVALID_ARG in ensemble 'e', [request id: <id_unknown>] unexpected deadlock, " +
        'at least one output is not set while no more ensemble steps can be made',
      'release 1',
    ]);
  });
});

describe('errors', () => {
  test('carry the name of the ensemble and the code and reason of the step', () => {
    const { run, begin, fail } = playEnsemble(['x > z'], { requested: ['z'] });
    begin('x=1');
    expect(fail(0, 'no', { code: 'UNAVAILABLE', reason: 'draining' })).toEqual([
      "fail UNAVAILABLE in ensemble 'e', no",
      'release 1',
    ]);
    expect(run.over).toBe(true);
  });

  test('nothing is called after one; the answer waits for what runs; the first one counts', () => {
    const { begin, answer, fail } = playEnsemble(['x > a', 'x > b', 'x > c', 'a > z', 'b c > y'], {
      requested: ['z', 'y'],
    });
    begin('x=1');
    expect(fail(1, 'first')).toEqual([]);
    expect(answer(0, 'a=2')).toEqual(['release 2']);
    expect(fail(2, 'second')).toEqual(["fail INTERNAL in ensemble 'e', first", 'release 1']);
  });

  test('what nothing that runs needs goes with the error', () => {
    const { begin, answer, fail } = playEnsemble(['x > a', 'y > b', 'u > c', 'a b > z', 'c > w'], {
      requested: ['z', 'w'],
    });
    begin('x=1', 'y=2', 'u=3');
    answer(0, 'a=4');
    expect(fail(1, 'no')).toEqual(['release 2 4']);
    expect(answer(2, 'c=5')).toEqual(["fail INTERNAL in ensemble 'e', no", 'release 3 5']);
  });

  test('where calls wait at gates, those of a run that has failed are withdrawn', () => {
    const { begin, fail } = playEnsemble(['x > a', 'x > b'], { requested: ['a', 'b'], maxInflight: 1 });
    begin('x=1');
    expect(fail(0, 'no')).toEqual(['withdraw 1']);
    expect(fail(1, 'withdrawn')).toEqual(["fail INTERNAL in ensemble 'e', no", 'release 1']);
  });
});

describe('cancel', () => {
  test('cancels what runs, calls nothing more and ends as cancelled', () => {
    const { begin, answer, cancel, fail } = playEnsemble(['x > a', 'y > b', 'a b > z'], { requested: ['z'] });
    begin('x=1', 'y=2');
    expect(cancel()).toEqual(['cancelCall 0', 'cancelCall 1']);
    expect(answer(0, 'a=3')).toEqual(['release 1 3']);
    expect(fail(1, 'Request cancelled', { code: 'CANCELLED' })).toEqual([
      'fail CANCELLED Request cancelled',
      'release 2',
    ]);
  });

  test('after an error it hurries the end, which is the error', () => {
    const { begin, cancel, fail } = playEnsemble(['x > a', 'x > b'], { requested: ['a', 'b'] });
    begin('x=1');
    fail(0, 'no');
    expect(cancel()).toEqual(['cancelCall 1']);
    expect(fail(1, 'Request cancelled')).toEqual(["fail INTERNAL in ensemble 'e', no", 'release 1']);
  });

  test('before it began', () => {
    const { run, cancel, begin } = playEnsemble(['x > z'], { requested: ['z'] });
    expect(cancel()).toEqual(['fail CANCELLED Request cancelled']);
    expect(run.over).toBe(true);
    expect(begin('x=1')).toEqual([]);
  });
});

describe('decoupled steps', () => {
  const decoupled = true;

  test('each answer goes on by itself, and the end comes with the last of them', () => {
    const { begin, more, answer, end } = playEnsemble(['x > a', 'a > z'], { requested: ['z'], decoupled });
    begin('x=1');
    expect(more(0, 'a=2')).toEqual(['call 1: step 1 (I0=2)']);
    expect(more(0, 'a=3')).toEqual(['call 2: step 1 (I0=3)']);
    expect(answer(1, 'z=4')).toEqual(['respond (z=4)', 'release 2 4']);
    expect(end(0)).toEqual(['release 1']);
    expect(answer(2, 'z=5')).toEqual(['respond last (z=5)', 'release 3 5']);
  });

  test('where the end is told alone, it is told alone', () => {
    const { begin, more, end } = playEnsemble(['x > z'], { requested: ['z'], decoupled });
    begin('x=1');
    expect(more(0, 'z=2')).toEqual(['respond (z=2)', 'release 2']);
    expect(end(0)).toEqual(['respond last (nothing)', 'release 1']);
  });

  test('one that gives no answer: the end and no error', () => {
    const { begin, end } = playEnsemble(['x > a', 'a > z'], { requested: ['z'], decoupled });
    begin('x=1');
    expect(end(0)).toEqual(['respond last (nothing)', 'release 1']);
  });

  test('tensors of one answer meet, though a branch is slow (triton-inference-server/server#7303)', () => {
    const { begin, more, answer } = playEnsemble(['x > a b', 'a > c', 'b c > z'], { requested: ['z'], decoupled });
    begin('x=1');
    more(0, 'a=2', 'b=3');
    more(0, 'a=4', 'b=5');
    expect(answer(2, 'c=6')).toEqual(['call 3: step 2 (I0=5 I1=6)', 'release 4']);
    expect(answer(1, 'c=7')).toEqual(['call 4: step 2 (I0=3 I1=7)', 'release 2']);
  });

  test('one after another: each answer of the second goes out', () => {
    const { begin, more, answer, end } = playEnsemble(['x > a', 'a > b', 'b > z'], { requested: ['z'], decoupled });
    begin('x=1');
    expect(more(0, 'a=2')).toEqual(['call 1: step 1 (I0=2)']);
    expect(more(1, 'b=3')).toEqual(['call 2: step 2 (I0=3)']);
    expect(more(1, 'b=4')).toEqual(['call 3: step 2 (I0=4)']);
    expect(answer(3, 'z=5')).toEqual(['respond (z=5)', 'release 4 5']);
    expect(end(1)).toEqual(['release 2']);
    expect(answer(2, 'z=6')).toEqual(['respond (z=6)', 'release 3 6']);
    expect(end(0)).toEqual(['respond last (nothing)', 'release 1']);
  });

  test('an error after answers: the run ends with it, and what its answers led to is not called', () => {
    const { begin, more, answer, fail } = playEnsemble(['x > a', 'a > z'], { requested: ['z'], decoupled });
    begin('x=1');
    more(0, 'a=2');
    expect(answer(1, 'z=3')).toEqual(['respond (z=3)', 'release 2 3']);
    more(0, 'a=4');
    expect(fail(2, 'no')).toEqual(['release 4']);
    expect(more(0, 'a=5')).toEqual(['release 5']);
    expect(answer(0, 'a=6')).toEqual(["fail INTERNAL in ensemble 'e', no", 'release 1 6']);
  });

  test('what else the call of the first answer waits for does not come in the others', () => {
    const { begin, more, end } = playEnsemble(['x > a', 'a y > z'], { requested: ['z'], decoupled });
    expect(begin('x=1', 'y=2')).toEqual(['call 0: step 0 (I0=1)']);
    expect(more(0, 'a=3')).toEqual(['call 1: step 1 (I0=3 I1=2)']);
    expect(more(0, 'a=4')).toEqual(['release 4']);
    expect(end(0)).toEqual(['release 1']);
  });

  test('a model that keeps the order: its answers are taken in that of its calls', () => {
    const { begin, more, answer, end } = playEnsemble(['x > a', 'a > z'], {
      requested: ['z'],
      decoupled,
      ordered: (step) => step === 1,
    });
    begin('x=1');
    more(0, 'a=2');
    more(0, 'a=3');
    more(0, 'a=4');
    end(0);
    expect(answer(2, 'z=6')).toEqual(['release 3']);
    expect(answer(1, 'z=5')).toEqual(['respond (z=5)', 'respond (z=6)', 'release 2 5 6']);
    expect(answer(3, 'z=7')).toEqual(['respond last (z=7)', 'release 4 7']);
  });

  test('an error lets go of answers that came too early', () => {
    const { begin, more, answer, end, fail } = playEnsemble(['x > a', 'a > z'], {
      requested: ['z'],
      decoupled,
      ordered: (step) => step === 1,
    });
    begin('x=1');
    more(0, 'a=2');
    more(0, 'a=3');
    end(0);
    answer(2, 'z=4');
    expect(fail(1, 'no')).toEqual(["fail INTERNAL in ensemble 'e', no", 'release 2 4']);
  });
});
