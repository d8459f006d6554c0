const SAMPLE_RATE_HZ = 16_000;
const SYLLABLES_PER_SECOND = 4;
/** The first three formants, in Hz, of the vowels of "father", "see" and "boot", for a grown-up's voice. */
const VOWELS: readonly (readonly number[])[] = [
  [730, 1090, 2440],
  [270, 2290, 3010],
  [300, 870, 2240],
];
const BANDWIDTHS_HZ: readonly number[] = [80, 110, 160];
const PEAK = 0.5;

/**
 * A voice that says vowels, four syllables a second: pulses of the vocal cords through three resonances, as a formant
 * synthesiser makes them. The same samples each time.
 *
 * @param pitchHz of the voice, about 90 to 220
 * @returns 16 kHz, between -0.5 and 0.5
 */
export function vowels(sampleCount: number, pitchHz: number): Float32Array<ArrayBuffer> {
  const sound = new Float64Array(sampleCount);
  const before = VOWELS[0]?.map(() => [0, 0] as [number, number]) ?? [];
  let phase = 0;
  let loudest = 0;
  for (let index = 0; index < sampleCount; index += 1) {
    const timeS = index / SAMPLE_RATE_HZ;
    // A pitch that falls and rises a little, as a sentence's does.
    phase += (pitchHz * (1 + 0.08 * Math.sin(2 * Math.PI * 0.7 * timeS))) / SAMPLE_RATE_HZ;
    const syllable = Math.floor(timeS * SYLLABLES_PER_SECOND);
    const loudness = Math.sin(Math.PI * (timeS * SYLLABLES_PER_SECOND - syllable)) ** 0.5;
    let value = phase >= 1 ? loudness : 0;
    phase %= 1;
    const formants = VOWELS[syllable % VOWELS.length] ?? [];
    for (const [number, past] of before.entries()) {
      const radius = Math.exp((-Math.PI * (BANDWIDTHS_HZ[number] ?? 100)) / SAMPLE_RATE_HZ);
      const cosine = Math.cos((2 * Math.PI * (formants[number] ?? 500)) / SAMPLE_RATE_HZ);
      value += 2 * radius * cosine * past[0] - radius * radius * past[1];
      past[1] = past[0];
      past[0] = value;
    }
    sound[index] = value;
    loudest = Math.max(loudest, Math.abs(value));
  }
  return Float32Array.from(sound, (value) => (value / loudest) * PEAK);
}
