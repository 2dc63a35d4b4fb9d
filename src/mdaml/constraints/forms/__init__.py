"""Forms of answers, one module for each: its check, its rule, its columns in a file, its score.

Modules of forms that people answer in have ``COLUMNS``, the columns of a file in their order, and
``parse``, which turns cells into arrays and names the faults of each line. A name that ends in
``…`` stands for any number of numbered columns, one that ends in ``?`` may be missing.

**The rule** by which answers become comparisons. By Luce's choice model the probability to choose
one of m options is ``exp(u)`` over the sum of ``exp(u)`` of all, where the utility u of an option
is minus a squared distance. Such a choice becomes m - 1 comparisons, of the chosen option with each
other one, **each of weight 2 / m**. Where all options are alike, these comparisons (each with the
logistic loss) then have the gradient of the choice and, on average over the options, its Hessian.
So a choice between two weighs 1, one of many at most 2: comparisons that come from one answer are
not independent answers.

An answer that leaves open which of several was meant ("neither", "no odd one") is the mean of the
answers that it leaves open: both directions, each with half of the weight.
"""
