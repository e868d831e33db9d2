// Does nothing: what remains of a launch of it is the launcher.
int main() {
  return 0;
}
