"""English sentences of mixed length, written for this project: default texts of benchmarks."""

from __future__ import annotations

SENTENCES = (
    "Thank you very much.",
    "The parcel has not arrived yet.",
    "Where is the nearest chemist?",
    "Please close the window, it is getting cold in here.",
    "My train was cancelled, so I will be about forty minutes late this evening.",
    "She planted two apple trees behind the shed and a row of beans along the fence.",
    "Could you send me the invoice again?",
    "The meeting was moved to Thursday because half of the team was still on holiday, and nobody minded.",
    "Rain at last.",
    "He bought the bicycle second-hand, repaired the brakes himself, and has ridden it to work every day since April.",
    "The soup needs more salt.",
    "I forgot my password and the link in your message does not open on my phone.",
    "After the storm the whole street was covered in leaves, and the children kicked them from one end to the other.",
    "The museum is open from ten to five, except on Mondays.",
    "We saw three deer at the edge of the wood this morning; they looked at us for a while and walked away slowly.",
    "That is not what I ordered.",
    "The lamp on the desk flickers whenever somebody starts the washing machine.",
    "Her grandmother taught her to bake bread without a recipe: a little more flour when the dough is sticky, a little "
    "more water when it cracks, and patience in either case.",
    "How long does the battery last?",
    "The new library has large windows towards the river, quiet rooms under the roof, and a café on the ground floor "
    "where one may read all day without being asked to buy anything.",
    "It works now, thanks!",
    "The shoes are comfortable, but the left one squeaks on wet pavement.",
    "They painted the kitchen yellow and regretted it within a week.",
    "If the heating fails again tonight, call the number on the door of the cellar; somebody is always there.",
    "The ferry crosses the lake every hour in summer and twice a day in winter.",
    "I would like to return this coat, since the zip broke on the second day.",
    "The orchestra played the slow movement so quietly that one could hear the rain on the roof of the hall.",
    "No parking here.",
    "Our neighbour, who is ninety-one, still walks to the market on Saturdays, buys more than she can carry, and lets "
    "whoever happens to pass by bring the rest home for her.",
    "The film was longer than it needed to be, yet nobody left before the end.",
    "Is the table by the window free?",
    "The doctor said that the wound heals well and that the stitches can come out on Friday.",
    "Turn left at the bakery, follow the canal to the second bridge, cross it, and you will see a red door beside a "
    "shop that sells lamps; ring twice, for the first ring is never heard.",
    "Good morning.",
    "The report lists every delivery of the past year with its weight, its origin and the day on which it was paid.",
    "My daughter has learned to swim.",
    "The hotel room was clean and quiet, although the lift was out of order and our luggage had to be carried up four "
    "flights of stairs by a young man who refused to take any money for it.",
    "Prices went up again in March.",
    "The cat sleeps on the keyboard whenever I have something urgent to write.",
    "When the old cinema closed, the people of the town collected enough money to rent it for one more month, showed a "
    "different film every evening, and ended up running the place themselves for eleven years, with borrowed chairs, "
    "home-made cake in the interval, and a projector that had to be hit on the side now and then to keep it going.",
)
