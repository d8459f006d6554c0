import { seededRandom } from '@nereid/runtime';

const TWO_32 = 4_294_967_296;
/** Odd, so that neighbouring numbers give seeds that have nothing in common. */
const SPREAD = 0x9e3779b1;

/** A seed of its own for the part `index` of what `seed` stands for. */
export function partSeed(seed, index) {
  const mixed = Math.imul((seed ^ Math.imul(index + 1, SPREAD)) >>> 0, 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}

/** Choices by a seed: the same seed gives the same choices, whatever else is drawn. */
export function createDice(seed) {
  const random = seededRandom(seed);
  const int = (min, max) => min + Math.floor(random.next() * (max - min + 1));
  const chance = (share) => random.next() < share;
  const pick = (list) => list[int(0, list.length - 1)];
  const seedOf = () => Math.floor(random.next() * TWO_32);
  return {
    int,
    chance,
    pick,
    seed: seedOf,
    /** One of `[weight, value]`. */
    weighted(rows) {
      let left = random.next() * rows.reduce((sum, [weight]) => sum + weight, 0);
      for (const [weight, value] of rows) {
        left -= weight;
        if (left < 0) return value;
      }
      return rows[rows.length - 1][1];
    },
    shuffle(list) {
      const copy = [...list];
      for (let last = copy.length - 1; last > 0; last -= 1) {
        const other = int(0, last);
        [copy[last], copy[other]] = [copy[other], copy[last]];
      }
      return copy;
    },
    bytes: (length) => Buffer.from(Array.from({ length }, () => int(0, 255))),
    /** `count` times what `make` gives. */
    list: (count, make) => Array.from({ length: count }, (_, index) => make(index)),
  };
}
