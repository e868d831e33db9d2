// Does nothing: launching it costs what the launcher costs.
int main() {
  return 0;
}
