// Prints the rows of a JSON file, and how many a Parquet file has or why it is not read.
#include <accelerate/base/error.h>
#include <accelerate/transformers/datasets/load_dataset.h>

#include <iostream>

int main(int, char** arguments) {
  using namespace accelerate;
  for (const Row& row :
       load_dataset("json", {.data_files = arguments[1], .keep_in_memory = true}).only()) {
    std::cout << row["text"].text() << ' ' << row["label"].integer() << '\n';
  }
  try {
    std::cout << load_dataset("parquet", {.data_files = arguments[2], .keep_in_memory = true})
                     .only()
                     .size()
              << " rows of Parquet\n";
  } catch (const ConfigError& error) {
    std::cout << describe(error) << '\n';
  }
}
