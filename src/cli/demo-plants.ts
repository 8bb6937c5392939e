/** A plant of the demonstration. */
interface DemoPlant {
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

const plants = (...rows: readonly (readonly [name: string, tag: string])[]): DemoPlant[] =>
  rows.map(([name, tag], index) => ({ id: index + 1, name, tag }));

/** The plants of each owner of the demonstration, and their changes since. */
export const DEMO_OWNERS: Readonly<
  Record<
    string,
    {
      readonly plants: readonly DemoPlant[];
      /** Deleted, and not there any more. */
      readonly gone: readonly number[];
      /** Deleted, and added again under this name. */
      readonly renamed: Readonly<Record<number, string>>;
    }
  >
> = {
  alice: {
    plants: plants(
      ['Monstera deliciosa', 'aroid'],
      ['Zamioculcas zamiifolia', 'low light'],
      ['Ficus lyrata', 'living room'],
      ["Epipremnum aureum 'Marble Queen'", 'aroid'],
      ['Calathea orbifolia', 'humid'],
      ['Sansevieria trifasciata', 'low light'],
      ['Philodendron gloriosum', 'aroid'],
      ['Pilea peperomioides', 'window sill'],
      ['Hoya carnosa', 'climber'],
      ['Spathiphyllum wallisii', 'bathroom'],
      ['Tradescantia zebrina', 'hanging'],
      ['Aspidistra elatior', 'hallway'],
      ['Dracaena marginata', ''],
      ['Maranta leuconeura', 'humid'],
    ),
    gone: [13],
    renamed: { 6: 'Dracaena trifasciata', 4: "Epipremnum aureum 'Neon'" },
  },
  bob: {
    plants: plants(
      ['Echeveria elegans', 'succulent'],
      ['Crassula ovata', 'succulent'],
      ['Lithops optica', 'succulent'],
      ['Opuntia microdasys', 'cactus'],
      ['Mammillaria hahniana', 'cactus'],
      ['Aloe vera', 'kitchen'],
    ),
    gone: [3],
    renamed: {},
  },
  'chandra@greenhouse.example': {
    plants: plants(
      ['Nepenthes alata', 'carnivorous'],
      ['Dionaea muscipula', 'carnivorous'],
      ['Sarracenia purpurea', 'bog'],
      ['Drosera capensis', 'bog'],
    ),
    gone: [],
    renamed: { 2: "Dionaea muscipula 'Akai Ryu'" },
  },
  زهرة: {
    plants: plants(['ياسمين', 'شرفة'], ['نخلة التمر', 'حديقة'], ['<b>ريحان</b>', 'مطبخ'], ['観音竹', '椰子']),
    gone: [],
    renamed: {},
  },
};
